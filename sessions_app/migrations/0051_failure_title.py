"""Sessions keep the title of their failure."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0050_schedules_audited")]

    operations = [
        migrations.AddField(
            "session",
            "failure_title",
            models.CharField(blank=True, db_default="", default="", max_length=200),
        ),
    ]
