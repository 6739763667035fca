from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0017_reservations")]

    operations = [
        migrations.AddField(
            "executor",
            "nodes_digest",
            models.CharField(blank=True, db_default="", default="", max_length=32),
        ),
    ]
