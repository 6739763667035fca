"""The Django application of executors and leases."""

from django.apps import AppConfig


class SchedulerConfig(AppConfig):
    """The configuration of this application."""

    name = "scheduler"

    def ready(self) -> None:
        """Register the function that explains why a session waits."""
        from scheduler.services.pending import pending_explain
        from sessions_app.selectors.why_pending import explain_with

        explain_with(pending_explain)
