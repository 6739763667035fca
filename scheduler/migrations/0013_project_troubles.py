from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("scheduler", "0012_audit_triggers"),
    ]

    operations = [
        migrations.AddField(
            model_name="executor",
            name="project_troubles",
            field=models.JSONField(db_default={}, default=dict),
        ),
    ]
