from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("sessions_app", "0020_audit_triggers")]

    operations = [
        AddIndexConcurrently(
            model_name="webhookdelivery",
            index=models.Index(fields=["endpoint", "session_id", "id"], name="webhook_of_session"),
        ),
    ]
