"""gunicorn's settings for the web processes: REST, admin and pages."""
# ruff: noqa: INP001  # read by gunicorn, never imported

import os

# Read here, in the master: what is wrong with the environment is said once and ends it, where a
# worker would be started again for ever.
import reprise.settings  # noqa: F401

worker_class = "gthread"
workers = int(os.environ.get("REPRISE_WEB_WORKERS", "2"))
threads = 8
# A worker's sign of life must not wait for a disk.
worker_tmp_dir = "/dev/shm"  # noqa: S108
graceful_timeout = 25
# Longer than the proxy keeps its connections, so that it is the one that closes them.
keepalive = 75
accesslog = None
