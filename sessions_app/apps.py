"""The Django application of the records."""

from django.apps import AppConfig


class SessionsAppConfig(AppConfig):
    """The records: tenants, queues, sessions, events, decisions."""

    name = "sessions_app"
    verbose_name = "Sessions"
