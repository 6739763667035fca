"""Django application of the records and their doors."""

from django.apps import AppConfig


class SessionsAppConfig(AppConfig):
    """The records: tenants, queues, sessions, events, decisions."""

    name = "sessions_app"
    verbose_name = "Sessions"

    def ready(self) -> None:
        """Register the function that reads the templates of schedules."""
        from sessions_app.api.http.templates import read_template
        from sessions_app.services.schedules.templates import read_with

        read_with(read_template)
