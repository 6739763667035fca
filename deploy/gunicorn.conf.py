"""gunicorn's settings for the web processes: REST, admin and pages."""
# ruff: noqa: INP001  # read by gunicorn, never imported

from base.loglines.lines import configure
from reprise import shared_metrics

# Before anything is imported that counts: the workers are one to whoever scrapes them.
shared_metrics.share()

# Read here, in the master: what is wrong with the environment is said once and ends it, where a
# worker would be started again for ever.
from reprise.settings import GIVEN, LOGGING  # noqa: E402

logconfig_dict = {
    **LOGGING,
    "loggers": {
        **LOGGING["loggers"],
        "gunicorn.error": {
            "level": GIVEN.log_level or "INFO",
            "handlers": ["stderr"],
            "propagate": False,
        },
    },
}
configure(logconfig_dict)

# Threads, of which two are for probes only.
worker_class = "reprise.http.probe_lane.ProbeLaneWorker"
workers = GIVEN.web_workers
threads = 8
# A worker's sign of life must not wait for a disk.
worker_tmp_dir = "/dev/shm"  # noqa: S108
graceful_timeout = 25
# Nobody commands it but its supervisor; the socket would lie in a home directory that may be
# missing, or another server's.
control_socket_disable = True
# Longer than proxies keep their connections (Caddy 120 s, some balancers 600 s): they are to be the
# ones that close them. Idle ones hold no thread.
keepalive = 620
accesslog = None
# Only REPRISE_TRUSTED_PROXIES decides whose headers are believed.
forwarded_allow_ips = ""


def post_worker_init(worker: object) -> None:  # noqa: ARG001  # gunicorn's hook
    """Watch the database's disk in each process that answers, and collect garbage rarely there."""
    from reprise import garbage  # noqa: PLC0415
    from reprise.monitoring import disk  # noqa: PLC0415  # Django is set up by now

    disk.watch.start("web")
    garbage.freeze()
