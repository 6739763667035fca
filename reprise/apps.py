"""The Django application of the server's processes."""

from typing import Any

from django.apps import AppConfig, apps
from django.core.management.base import CommandError
from django.db.models.signals import post_migrate

from sessions_app.core.errors import SecretUnreadable


class RepriseConfig(AppConfig):
    """Connects what follows a migration: create the periodic tasks, check the encryption keys."""

    name = "reprise"

    def ready(self) -> None:
        from reprise.beat.periodic import ensure_periodic_tasks

        # The rows go into the tables of django-celery-beat.
        post_migrate.connect(
            ensure_periodic_tasks, sender=apps.get_app_config("django_celery_beat")
        )
        # With wrong keys, a deployment fails here, before any of its processes works.
        post_migrate.connect(_check_secrets, sender=self)


def _check_secrets(**_kwargs: Any) -> None:
    from sessions_app.services.secrets.encrypt import secrets_check

    try:
        secrets_check()
    except SecretUnreadable as error:
        raise CommandError(str(error)) from error
