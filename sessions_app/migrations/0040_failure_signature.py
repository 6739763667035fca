"""Sessions keep the signature of their failure: failures of the same kind have the same key."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0039_exits")]

    operations = [
        migrations.AddField(
            model_name="session",
            name="failure_signature",
            field=models.CharField(blank=True, db_default="", max_length=12),
        ),
    ]
