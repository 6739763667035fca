"""The shell: settings, URLs, the Celery application, standalone."""

import gc

# Most of what a start creates stays for good: with Python's 700 it spends a tenth of its time in
# looking for garbage.
gc.set_threshold(10_000)

from reprise.celery import app as celery_app  # noqa: E402  # everything else is loaded by it

__all__ = ["celery_app"]
