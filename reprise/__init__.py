"""The shell: settings, URLs, the Celery application, standalone."""

from reprise.celery import app as celery_app

__all__ = ["celery_app"]
