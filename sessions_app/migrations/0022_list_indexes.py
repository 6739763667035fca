from django.conf import settings
from django.contrib.postgres.indexes import OpClass
from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models
from django.db.models import F, Q

NEWEST = F("id").desc(nulls_last=True)


class Migration(migrations.Migration):
    # Indexes on a table that is large and written to all the time.
    atomic = False

    dependencies = [
        ("sessions_app", "0021_deliveries_of_session"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="session",
            index=models.Index(F("project"), NEWEST, name="session_of_project"),
        ),
        AddIndexConcurrently(
            model_name="session",
            index=models.Index(
                F("project"), NEWEST, condition=Q(("tip", True)), name="session_tips"
            ),
        ),
        AddIndexConcurrently(
            model_name="session",
            index=models.Index(
                F("project"), NEWEST, condition=Q(("tip", False)), name="session_retried"
            ),
        ),
        AddIndexConcurrently(
            model_name="session",
            index=models.Index(
                F("project"),
                NEWEST,
                condition=Q(("phase", "waiting")),
                name="session_of_waiting",
            ),
        ),
        AddIndexConcurrently(
            model_name="session",
            index=models.Index(
                F("project"),
                NEWEST,
                condition=Q(("phase", "live")),
                name="session_of_live",
            ),
        ),
        AddIndexConcurrently(
            model_name="session",
            index=models.Index(
                F("project"),
                NEWEST,
                condition=Q(
                    ("phase", "final"),
                    Q(("retry_cause__in", ["", "user_cancelled"]), _negated=True),
                ),
                name="session_failed",
            ),
        ),
        AddIndexConcurrently(
            model_name="session",
            index=models.Index(F("queue"), NEWEST, name="session_of_queue"),
        ),
        AddIndexConcurrently(
            model_name="session",
            index=models.Index(F("owner"), F("project"), NEWEST, name="session_owner_project"),
        ),
        AddIndexConcurrently(
            model_name="session",
            index=models.Index(
                F("project"),
                F("job_set"),
                NEWEST,
                condition=Q(("job_set", ""), _negated=True),
                name="session_of_job_set",
            ),
        ),
        AddIndexConcurrently(
            model_name="session",
            index=models.Index(
                F("project"),
                F("session_type"),
                NEWEST,
                condition=Q(("session_type", "batch"), _negated=True),
                name="session_other_types",
            ),
        ),
        AddIndexConcurrently(
            model_name="session",
            index=models.Index(
                F("project"),
                F("retry_cause"),
                NEWEST,
                condition=Q(("phase", "final")),
                name="session_cause",
            ),
        ),
        AddIndexConcurrently(
            model_name="session",
            index=models.Index(
                F("project"),
                F("failure_category"),
                NEWEST,
                condition=Q(("failure_category", ""), _negated=True),
                name="session_category",
            ),
        ),
        AddIndexConcurrently(
            model_name="session",
            index=models.Index(F("project"), F("retry_state"), NEWEST, name="session_retry_state"),
        ),
        AddIndexConcurrently(
            model_name="session",
            index=models.Index(
                F("project"),
                F("exit_code"),
                NEWEST,
                condition=Q(("exit_code__isnull", False)),
                name="session_exit_code",
            ),
        ),
        AddIndexConcurrently(
            model_name="session",
            index=models.Index(
                F("project"),
                F("node"),
                NEWEST,
                condition=Q(("node", ""), _negated=True),
                name="session_node",
            ),
        ),
        AddIndexConcurrently(
            model_name="session",
            index=models.Index(
                F("project"),
                F("executor"),
                NEWEST,
                condition=Q(("executor", ""), _negated=True),
                name="session_executor",
            ),
        ),
        AddIndexConcurrently(
            model_name="session",
            index=models.Index(
                F("project"),
                OpClass("name", "varchar_pattern_ops"),
                condition=Q(("name", ""), _negated=True),
                name="session_name",
            ),
        ),
        # How many sessions of a status there are, and of a cause, only both columns tell together.
        migrations.RunSQL(
            "CREATE STATISTICS session_ends (mcv) ON status, phase, retry_cause "
            "FROM sessions_app_session",
            "DROP STATISTICS session_ends",
        ),
        # Servers of the version before list more slowly without these.
        RemoveIndexConcurrently(
            model_name="session",
            name="session_project_newest",
        ),
        RemoveIndexConcurrently(
            model_name="session",
            name="session_project_tips",
        ),
        RemoveIndexConcurrently(
            model_name="session",
            name="session_queue_newest",
        ),
        RemoveIndexConcurrently(
            model_name="session",
            name="session_owner_newest",
        ),
        RemoveIndexConcurrently(
            model_name="session",
            name="session_job_set",
        ),
        RemoveIndexConcurrently(
            model_name="session",
            name="session_final_status",
        ),
        RemoveIndexConcurrently(
            model_name="session",
            name="session_final_cause",
        ),
        RemoveIndexConcurrently(
            model_name="session",
            name="session_root_name",
        ),
        # Nothing uses it; servers of the version before still read it, so that the column stays
        # until the next version.
        migrations.SeparateDatabaseAndState(
            state_operations=[migrations.RemoveField("session", "not_before")]
        ),
    ]
