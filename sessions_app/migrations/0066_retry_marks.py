"""Sessions keep the counters of their chain when it last made progress."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0065_progress")]

    operations = [migrations.AddField("session", "retry_marks", models.JSONField(null=True))]
