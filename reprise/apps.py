"""Django application of the shell."""

from typing import Any

from django.apps import AppConfig, apps
from django.core.management.base import CommandError
from django.db.models.signals import post_migrate

from sessions_app.core.errors import SecretUnreadable


class RepriseConfig(AppConfig):
    """Makes the periodic tasks once the tables are there, and sees that secrets can be read."""

    name = "reprise"

    def ready(self) -> None:
        from reprise.beat.periodic import ensure_periodic_tasks

        # Beat's tables are what the rows are made in.
        post_migrate.connect(
            ensure_periodic_tasks, sender=apps.get_app_config("django_celery_beat")
        )
        # A deployment ends here if its keys are wrong, before any of its processes works.
        post_migrate.connect(_check_secrets, sender=self)


def _check_secrets(**_kwargs: Any) -> None:
    from sessions_app.services.secrets.encrypt import secrets_check

    try:
        secrets_check()
    except SecretUnreadable as error:
        raise CommandError(str(error)) from error
