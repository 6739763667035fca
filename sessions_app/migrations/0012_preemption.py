from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0011_session_lines")]

    operations = [
        migrations.AddField("session", "preempt_requested_at", models.DateTimeField(null=True)),
    ]
