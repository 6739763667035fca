from django.db import migrations, models


class Migration(migrations.Migration):
    # PostgreSQL lengthens a varchar in its catalog alone: neither rows nor indexes are written.
    dependencies = [("sessions_app", "0025_secret_index")]

    operations = [
        migrations.AlterField(
            model_name="session",
            name="creation_id",
            field=models.CharField(max_length=255),
        ),
    ]
