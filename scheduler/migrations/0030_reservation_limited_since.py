"""Reservations last while a limit holds their sessions back for a while."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0029_executor_warnings")]

    operations = [
        migrations.AddField("reservation", "limited_since", models.DateTimeField(null=True))
    ]
