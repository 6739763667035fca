"""The Django application of the doors; it has no models."""

from django.apps import AppConfig


class InterfacesConfig(AppConfig):
    """The configuration of this application."""

    name = "interfaces"

    def ready(self) -> None:
        """Register the function that reads the templates of schedules."""
        from interfaces.http.templates import read_template
        from sessions_app.services.schedules.templates import read_with

        read_with(read_template)
