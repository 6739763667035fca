"""Reservations get rows of their own.

Servers of the version before go on writing the column, which stays for them.
"""

import django.db.models.deletion
import django.db.models.functions.datetime
import django.utils.timezone
from django.db import migrations, models

TAKE_ALONG = """
INSERT INTO scheduler_reservation (executor_id, session_id, nodes, since)
SELECT e.id, r.key::uuid, r.value, now()
FROM scheduler_executor e CROSS JOIN LATERAL jsonb_each(e.reservations) r
"""


class Migration(migrations.Migration):
    dependencies = [
        ("scheduler", "0018_nodes_digest"),
        ("sessions_app", "0044_refuse_unfittable"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[migrations.RemoveField("executor", "reservations")]
        ),
        migrations.CreateModel(
            name="Reservation",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("nodes", models.JSONField()),
                (
                    "since",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        default=django.utils.timezone.now,
                    ),
                ),
                (
                    "executor",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="reservations",
                        to="scheduler.executor",
                    ),
                ),
                (
                    "session",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="reservations",
                        to="sessions_app.session",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        models.F("executor"), models.F("session"), name="reservation_one_a_session"
                    )
                ],
            },
        ),
        migrations.RunSQL(TAKE_ALONG, migrations.RunSQL.noop),
    ]
