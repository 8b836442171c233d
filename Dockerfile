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
USER keyrail
# Inside a container the loopback defaults would reach nobody.
ENV KEYRAIL_LISTEN=redis://0.0.0.0:6380 \
    KEYRAIL_ADMIN=0.0.0.0:9121
EXPOSE 6380 9121
# Alive, not ready: a container must not be restarted because the Redis behind it is down.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD ["python", "-c", "\
import os, urllib.request as u; admin = os.environ['KEYRAIL_ADMIN']; \
admin == 'off' or u.urlopen('http://127.0.0.1:%s/healthz' % admin.rpartition(':')[2], timeout=2)"]
ENTRYPOINT ["keyrail"]
CMD ["serve"]
