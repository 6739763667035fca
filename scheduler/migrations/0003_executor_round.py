from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("scheduler", "0002_fencing"),
    ]

    operations = [
        migrations.AddField(
            model_name="executor",
            name="round",
            field=models.BigIntegerField(db_default=0, default=0),
        ),
    ]
