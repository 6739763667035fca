"""Django application that makes the records true on clusters."""

from django.apps import AppConfig


class SchedulerConfig(AppConfig):
    """Executors, leases, fit."""

    name = "scheduler"
