"""Deliveries of events that belong to no session keep what they say."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0079_executor_labels")]

    operations = [migrations.AddField("webhookdelivery", "data", models.JSONField(null=True))]
