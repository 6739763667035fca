"""Reads of defaults and switches; whoever asks has been let into the scope."""

from django.db.models import QuerySet

from retry.engine.decide import Mode
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.models import RetryDefaults, RetrySettings


def defaults_of(scope: ConfigScope) -> RetryDefaults | None:
    """Return the defaults that a scope has itself."""
    return RetryDefaults.objects.filter(**scope.key).first()


def settings_of(scope: ConfigScope) -> RetrySettings | None:
    """Return the settings that a scope has itself."""
    return RetrySettings.objects.filter(**scope.key).first()


def switches_moved() -> QuerySet[RetrySettings]:
    """Return the settings of all scopes in which retries are not on."""
    return RetrySettings.objects.exclude(mode=Mode.ON)
