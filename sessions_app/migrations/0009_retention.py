import django.db.models.deletion
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    # Indexes on tables that are large and written to all the time.
    atomic = False

    dependencies = [("sessions_app", "0008_event_streams")]

    operations = [
        migrations.AlterField(
            model_name="session",
            name="spec",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="sessions",
                to="sessions_app.sessionspec",
            ),
        ),
        AddIndexConcurrently(
            model_name="session",
            index=models.Index(
                models.F("finished_at"),
                condition=models.Q(
                    (
                        "retry_state__in",
                        ["succeeded", "exhausted", "not_retried", "cancelled"],
                    ),
                    ("tip", True),
                ),
                name="session_ended",
            ),
        ),
        AddIndexConcurrently(
            model_name="sessionevent",
            index=models.Index(
                condition=models.Q(("attempt", 0), ("type", "session.archived")),
                fields=["time"],
                name="event_archived",
            ),
        ),
    ]
