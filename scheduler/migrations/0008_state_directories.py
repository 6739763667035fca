from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("scheduler", "0007_drain"),
    ]

    operations = [
        migrations.AddField(
            model_name="executor",
            name="state_id",
            field=models.CharField(blank=True, db_default="", max_length=64),
        ),
        migrations.AddField(
            model_name="executor",
            name="fenced_at",
            field=models.DateTimeField(null=True),
        ),
    ]
