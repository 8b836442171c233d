# Keyrail, compiled, as a user without rights.
#
#   docker build -t keyrail .
#   docker run -p 6380:6380 keyrail serve --upstream redis://my-redis:6379
FROM python:3.11-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
COPY . /source
# Compile or fail: a plain image would work, and be slow.
RUN KEYRAIL_PLAIN=0 pip wheel --no-cache-dir --wheel-dir /wheels "/source[embedded]"

FROM python:3.11-slim
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin keyrail
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels "keyrail[embedded]"
# Inside a container the loopback defaults would reach nobody. They stand in a file of options, not in variables, which
# would win over the file that somebody gives with --config.
RUN printf '%s\n' 'listen: redis://0.0.0.0:6380' 'admin: 0.0.0.0:9121' > /etc/keyrail.yaml
ENV KEYRAIL_CONFIG=/etc/keyrail.yaml
USER keyrail
EXPOSE 6380 9121
# Alive, not ready: a container must not be restarted because the Redis behind it is down.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD ["python", "-c", "\
import os, urllib.request as u; admin = os.environ.get('KEYRAIL_ADMIN') or ':9121'; \
admin == 'off' or u.urlopen('http://127.0.0.1:%s/healthz' % admin.rpartition(':')[2], timeout=2)"]
ENTRYPOINT ["keyrail"]
CMD ["serve"]
