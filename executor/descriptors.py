"""The limits on open files and connections of this process."""

import resource

MOST = 65_536
_at_start = resource.getrlimit(resource.RLIMIT_NOFILE)


def raise_limit() -> int:
    """Raise the limit of this process to its hard limit, at most `MOST`, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return limit()


def limit() -> int:
    """Return how many files this process may have open now."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if soft == resource.RLIM_INFINITY else soft


def limit_of_runs() -> tuple[int, int]:
    """Return the limits that this process was started with.

    Runs get these, because some programs break with higher ones.
    """
    return _at_start
