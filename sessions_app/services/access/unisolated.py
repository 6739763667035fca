"""Warnings for operators who give people access where runs are not isolated."""

from django.conf import settings


def warnings() -> list[str]:
    """Return what submitting sessions allows on this machine; empty if runs are isolated."""
    user = settings.REPRISE_RUNS_AS
    if not user:
        return []
    text = (
        f"Sessions run here as {user}, this server's own user: whoever may submit them acts as "
        "that user on this machine, and can read its files and this server's secrets. "
        "Start it with --isolate-runs to prevent that."
    )
    return [text]
