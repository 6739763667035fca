"""Prepared actions keep what was given for any act, not only resources; the column stays."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0081_delivery_data")]

    operations = [
        migrations.AlterField(
            "preparedaction", "resources", models.JSONField(db_column="resources", default=dict)
        ),
        migrations.RenameField("preparedaction", "resources", "given"),
    ]
