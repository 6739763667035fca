"""Priority classes. A session keeps the value of its class within its stored priority."""

import django.db.models.functions.datetime
import django.utils.timezone
from django.db import migrations, models
from django.db.models import F, Q

# Someone may have made one of that name before a restore.
_SHIPPED = """
    INSERT INTO sessions_app_priorityclass (name, value, preemptible, may_preempt, protected_for,
        domains, projects, created_at, updated_at)
    VALUES ('default', 0, true, false, 0, '[]', '[]', now(), now())
    ON CONFLICT DO NOTHING
"""


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0071_shared_budget_indexes")]

    operations = [
        migrations.CreateModel(
            "PriorityClass",
            [
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=63, unique=True)),
                ("value", models.IntegerField(unique=True)),
                ("preemptible", models.BooleanField(default=True)),
                ("may_preempt", models.BooleanField(default=False)),
                ("protected_for", models.FloatField(default=0.0)),
                ("domains", models.JSONField(default=list)),
                ("projects", models.JSONField(default=list)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("updated_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                "verbose_name_plural": "priority classes",
                "constraints": [
                    models.CheckConstraint(
                        condition=Q(value__gte=-1000, value__lte=1000), name="priority_class_value"
                    ),
                    models.CheckConstraint(
                        condition=Q(protected_for__gte=0), name="priority_class_protection"
                    ),
                ],
            },
        ),
        migrations.RunSQL(_SHIPPED, migrations.RunSQL.noop),
        # Only the name in code changes: the column and its index stay.
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RemoveIndex("session", "session_lines"),
                migrations.RenameField("session", "priority", "stored_priority"),
                migrations.AlterField(
                    "session",
                    "stored_priority",
                    models.IntegerField(db_column="priority", default=0),
                ),
                migrations.AddIndex(
                    "session",
                    models.Index(
                        "queue",
                        "scheduling_key",
                        F("stored_priority").desc(),
                        "root_submitted_at",
                        "id",
                        condition=Q(phase="waiting"),
                        name="session_lines",
                    ),
                ),
            ]
        ),
        migrations.AddField("session", "gave_way_to", models.UUIDField(null=True)),
    ]
