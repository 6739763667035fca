from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    # Indexes on a table that is large and written to all the time.
    atomic = False

    dependencies = [("sessions_app", "0007_event_epoch")]

    operations = [
        AddIndexConcurrently(
            model_name="sessionevent",
            index=models.Index(fields=["xid"], name="event_xid"),
        ),
        AddIndexConcurrently(
            model_name="sessionevent",
            index=models.Index(
                fields=["project", "job_set", "epoch", "xid", "id"],
                condition=models.Q(("job_set", ""), _negated=True),
                name="event_job_set",
            ),
        ),
    ]
