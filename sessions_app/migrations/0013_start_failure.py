from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0012_preemption")]

    operations = [
        migrations.AddField("session", "start_failure", models.JSONField(null=True)),
    ]
