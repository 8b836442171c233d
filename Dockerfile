# Keyrail, compiled, as a user without rights.
#
#   docker build -t keyrail .                                      Keyrail alone
#   docker build -t keyrail:embedded --target embedded .           with the Valkey that `serve --embedded` starts
#   docker run -p 6380:6380 keyrail serve --upstream redis://my-redis:6379
#
# What it depends on is locked with hashes. To lock it anew:
#   uv pip compile --generate-hashes --universal --python-version 3.11 --no-header --extra compress pyproject.toml -o deploy/requirements.lock
#   and the same with `--extra embedded` into deploy/requirements-embedded.lock
FROM python:3.11-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
COPY . /source
# Compile or fail: a plain image would work, and be slow.
RUN KEYRAIL_PLAIN=0 pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /source

FROM python:3.11-slim AS keyrail-alone
LABEL org.opencontainers.image.title="Keyrail" \
      org.opencontainers.image.description="A guardrail proxy for Redis" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.documentation="README.md"
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin keyrail
RUN --mount=type=bind,from=build,source=/source/deploy,target=/deploy \
    pip install --no-cache-dir --require-hashes -r /deploy/requirements.lock
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --no-deps /wheels/keyrail-*.whl
# Inside a container the loopback defaults would reach nobody. They stand in a file of options, not in variables, which
# would win over the file that somebody gives with --config.
RUN printf '%s\n' 'listen: redis://0.0.0.0:6380' 'admin: 0.0.0.0:9121' > /etc/keyrail.yaml
ENV KEYRAIL_CONFIG=/etc/keyrail.yaml
# By number, so that Kubernetes can tell that it is not root (runAsNonRoot).
USER 10001
EXPOSE 6380 9121
# Alive, not ready: a container must not be restarted because the Redis behind it is down. In bash: to start Python each
# time costs more than an idle Keyrail.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD ["bash", "-c", "\
admin=${KEYRAIL_ADMIN:-:9121}; [ $admin = off ] && exit 0; \
exec 3<>/dev/tcp/127.0.0.1/${admin##*:} && printf 'GET /healthz HTTP/1.0\\r\\n\\r\\n' >&3 && \
read -r -t 2 _ status _ <&3 && [ $status = 200 ]"]
ENTRYPOINT ["keyrail"]
CMD ["serve"]

FROM keyrail-alone AS embedded
USER 0
RUN --mount=type=bind,from=build,source=/source/deploy,target=/deploy \
    pip install --no-cache-dir --require-hashes -r /deploy/requirements-embedded.lock
USER 10001

FROM keyrail-alone
