"""The line of a shared budget and the queues with one have an index each; changes are audited."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import Q

from sessions_app.migrations._audit_triggers import audited

QUEUE = (
    *("project_id", "name", "is_default", "priority_factor", "cordoned"),
    *("cordon_reason", "resource_limits", "retry_policies", "breaker"),
)
SETTINGS = (
    *("domain_id", "project_id", "mode", "global_max_retries", "default_policy"),
    *("retries_per_minute", "queue_retries_per_minute", "refuse_unfittable", "breaker"),
)
TABLES = (
    ("sessions_app_queue", "queue", QUEUE),
    ("sessions_app_retrysettings", "retry_settings", SETTINGS),
)


class Migration(migrations.Migration):
    # Indexes on tables that are written to all the time, and triggers on them.
    atomic = False

    dependencies = [("sessions_app", "0070_shared_budgets")]

    operations = [
        AddIndexConcurrently(
            "queue",
            models.Index(
                "project", condition=Q(retry_budget__isnull=False), name="queue_with_retry_budget"
            ),
        ),
        AddIndexConcurrently(
            "retrydecision",
            models.Index(
                "held_key",
                "held_order",
                "session",
                condition=Q(held_for="shared_budget", state="held"),
                name="decision_over_budget",
            ),
        ),
        *(
            migrations.RunSQL(
                audited(table, kind, (*before, "retry_budget")).sql,
                audited(table, kind, before).sql,
            )
            for table, kind, before in TABLES
        ),
    ]
