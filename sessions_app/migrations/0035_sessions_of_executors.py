"""What ended on an executor has an index, to which the lease and the acceptance of a session do not
write; what is live there is looked for among all that is live."""

from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models
from django.db.models import F, Q


class Migration(migrations.Migration):
    # Indexes on a table that is large and written to all the time.
    atomic = False

    dependencies = [("sessions_app", "0034_traces_return")]

    operations = [
        AddIndexConcurrently(
            model_name="session",
            index=models.Index(
                F("project"),
                F("executor"),
                F("id").asc(nulls_first=True),
                condition=Q(phase="final") & ~Q(executor=""),
                name="session_executor_ended",
            ),
        ),
        RemoveIndexConcurrently(model_name="session", name="session_executor"),
        RemoveIndexConcurrently(model_name="session", name="session_live_executor"),
    ]
