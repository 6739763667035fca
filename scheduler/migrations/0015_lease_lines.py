from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0014_hot_acceptance")]

    operations = [
        migrations.AddField("lease", "queue_id", models.BigIntegerField(null=True)),
        migrations.AddField("lease", "scheduling_key", models.BigIntegerField(null=True)),
    ]
