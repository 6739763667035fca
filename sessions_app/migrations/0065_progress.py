"""Sessions keep how far they came, as they print it, and what the attempts before them told."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0062_retry_advice")]

    operations = [
        migrations.AddField("session", "progress", models.JSONField(null=True)),
        migrations.AddField("session", "chain_progress", models.JSONField(null=True)),
    ]
