"""Django application of the shell."""

from django.apps import AppConfig, apps
from django.db.models.signals import post_migrate


class RepriseConfig(AppConfig):
    """Makes the periodic tasks once the tables are there."""

    name = "reprise"

    def ready(self) -> None:
        from reprise.periodic import ensure_periodic_tasks  # noqa: PLC0415  # needs the registry

        # Beat's tables are what the rows are made in.
        post_migrate.connect(
            ensure_periodic_tasks, sender=apps.get_app_config("django_celery_beat")
        )
