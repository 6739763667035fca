from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models.functions import Left


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("sessions_app", "0024_secrets")]

    operations = [
        AddIndexConcurrently(
            model_name="sessionspec",
            index=models.Index(
                Left("secret_environ", 8),
                condition=models.Q(("secret_environ__isnull", False)),
                name="spec_secrets",
            ),
        ),
    ]
