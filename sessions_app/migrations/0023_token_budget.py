from django.db import migrations, models


class Migration(migrations.Migration):
    # Tokens that are there keep the limits that they have; those that are made with them share it.
    dependencies = [("sessions_app", "0022_list_indexes")]

    operations = [
        migrations.AddField(
            model_name="apitoken",
            name="budget",
            field=models.BigIntegerField(editable=False, null=True),
        ),
    ]
