from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("scheduler", "0008_state_directories"),
    ]

    operations = [
        migrations.AddField(
            model_name="executor",
            name="trouble",
            field=models.TextField(blank=True, db_default="", default=""),
        ),
    ]
