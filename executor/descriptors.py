"""How many files and connections this process may have open."""

import resource

MOST = 65_536
_at_start = resource.getrlimit(resource.RLIMIT_NOFILE)


def raise_limit() -> int:
    """Allow this process as many as its hard limit does, up to `MOST`; returns how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return limit()


def limit() -> int:
    """How many this process may have open now."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if soft == resource.RLIM_INFINITY else soft


def limit_of_runs() -> tuple[int, int]:
    """What runs get: what this process was started with. Programs exist that break with more."""
    return _at_start
