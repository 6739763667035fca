from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0041_signature_index")]

    operations = [
        migrations.AddField(
            "session", "placement_refusals", models.PositiveSmallIntegerField(null=True)
        ),
    ]
