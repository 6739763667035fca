from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("sessions_app", "0014_events_without_project_constraint"),
    ]

    operations = [
        migrations.AddField(
            model_name="apitoken",
            name="made_with",
            field=models.CharField(blank=True, db_default="", default="", max_length=16),
        ),
    ]
