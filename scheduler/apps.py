"""The Django application of executors and leases."""

from django.apps import AppConfig


class SchedulerConfig(AppConfig):
    """The configuration of this application."""

    name = "scheduler"

    def ready(self) -> None:
        """Register the functions with which the sessions' room asks about executors."""
        from scheduler.services.fitting import most_memory, unfits
        from scheduler.services.pending import pending_explain
        from scheduler.services.silence import executors_count, silence_of
        from sessions_app.selectors.executors_known import count_with, silence_with
        from sessions_app.selectors.fitting import check_with
        from sessions_app.selectors.why_pending import explain_with

        check_with(unfits, most_memory)
        explain_with(pending_explain)
        count_with(executors_count)
        silence_with(silence_of)
