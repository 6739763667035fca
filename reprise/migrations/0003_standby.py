"""What beat needs to know to run sweeps that no worker takes, and to say that it does."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("reprise", "0002_audit_triggers")]

    operations = [
        migrations.CreateModel(
            name="SweepStart",
            fields=[
                ("task", models.CharField(max_length=200, primary_key=True, serialize=False)),
                ("taken_at", models.DateTimeField()),
            ],
            options={"verbose_name": "start of a sweep"},
        ),
        migrations.AddField(
            model_name="heartbeat",
            name="doing",
            field=models.TextField(blank=True, db_default="", default=""),
        ),
    ]
