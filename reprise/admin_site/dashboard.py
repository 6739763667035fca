"""The overview page of the admin, and its sidebar."""

from datetime import timedelta
from typing import Any

from django.http import HttpRequest
from django.urls import reverse

from reprise.monitoring.hours import hours
from reprise.operations.charts import charts
from scheduler.selectors import executors_all
from scheduler.services.silence import silent_before
from sessions_app.core.states import Phase
from sessions_app.locks import database_now
from sessions_app.selectors.counts import failures_by_cause, retries_waiting, sessions_in
from sessions_app.selectors.retry_config import switches_moved

WINDOW = timedelta(hours=24)
SHOWN = 20
"""Maximum number of silent executors and changed switches that are named."""


def dashboard(_: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Return the context of the overview page."""
    now = database_now()
    silent = executors_all().exclude(last_seen_at__gte=silent_before(now)).order_by("name")
    failures = failures_by_cause(now, WINDOW)
    moved = switches_moved()
    return {
        **context,
        "now": now,
        "retries": retries_waiting(),
        "waiting": sessions_in(Phase.WAITING),
        "live": sessions_in(Phase.LIVE),
        "silent": list(silent[:SHOWN]),
        "executors": executors_all().count(),
        "failures": failures,
        "most": max(failures.values(), default=0),
        "charts": charts(hours(now)),
        "switches": list(moved.select_related("domain", "project__domain")[:SHOWN]),
    }


_PAGES: tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...] = (
    (
        "Work",
        (
            ("Sessions", "play_circle", "sessions_app_session"),
            ("Decisions", "alt_route", "sessions_app_retrydecision"),
            ("Executors", "memory", "scheduler_executor"),
            ("Leases", "assignment", "scheduler_lease"),
            ("Nodes", "dns", "scheduler_node"),
            ("Preemptions", "swap_horiz", "scheduler_preemption"),
        ),
    ),
    (
        "Retries",
        (
            ("Retry policies", "rule", "sessions_app_retrypolicy"),
            ("Failure categories", "category", "sessions_app_failurecategory"),
            ("Priority classes", "low_priority", "sessions_app_priorityclass"),
            ("Retry defaults", "tune", "sessions_app_retrydefaults"),
            ("Switches", "toggle_on", "sessions_app_retrysettings"),
            ("Failures", "fingerprint", "sessions_app_failuresignature"),
            ("Breakers", "power_off", "sessions_app_breaker"),
        ),
    ),
    (
        "Tenants",
        (
            ("Domains", "domain", "sessions_app_domain"),
            ("Projects", "folder", "sessions_app_project"),
            ("Queues", "stacks", "sessions_app_queue"),
            ("Schedules", "event_repeat", "sessions_app_schedule"),
            ("Members", "group", "sessions_app_membership"),
            ("Users", "person", "auth_user"),
            ("Groups", "groups", "auth_group"),
            ("Tokens", "key", "sessions_app_apitoken"),
        ),
    ),
    (
        "Operation",
        (
            ("Audit log", "history", "sessions_app_auditentry"),
            ("Webhooks", "webhook", "sessions_app_webhookendpoint"),
            ("Deliveries", "outbox", "sessions_app_webhookdelivery"),
            ("Parked tasks", "pest_control", "reprise_parkedtask"),
            ("Heartbeats", "monitor_heart", "reprise_heartbeat"),
            ("Periodic tasks", "schedule", "django_celery_beat_periodictask"),
            ("Intervals", "timer", "django_celery_beat_intervalschedule"),
            ("Crontabs", "calendar_month", "django_celery_beat_crontabschedule"),
            ("Clocked", "alarm", "django_celery_beat_clockedschedule"),
        ),
    ),
)
"""Groups with the title, icon and list of each page; a new kind of record is a new line."""


def navigation(_: HttpRequest) -> list[dict[str, Any]]:
    """Return the sidebar."""
    first = [
        {"title": "Overview", "icon": "dashboard", "link": reverse("admin:index")},
        {"title": "What is wrong now", "icon": "emergency_home", "link": reverse("operations")},
    ]
    groups: list[dict[str, Any]] = [{"items": first}]
    for title, pages in _PAGES:
        items = [
            {"title": name, "icon": icon, "link": reverse(f"admin:{page}_changelist")}
            for name, icon, page in pages
        ]
        groups.append({"title": title, "separator": True, "collapsible": False, "items": items})
    return groups
