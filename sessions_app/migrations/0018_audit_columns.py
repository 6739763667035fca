from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("sessions_app", "0017_webhooks"),
    ]

    operations = [
        migrations.AddField(
            model_name="auditentry",
            name="domain",
            field=models.CharField(blank=True, db_default="", default="", max_length=63),
        ),
        migrations.AddField(
            model_name="auditentry",
            name="door",
            field=models.CharField(blank=True, db_default="", default="", max_length=16),
        ),
        migrations.AddField(
            model_name="auditentry",
            name="root",
            field=models.UUIDField(null=True),
        ),
        migrations.AddField(
            model_name="auditentry",
            name="via",
            field=models.JSONField(blank=True, db_default={}, default=dict),
        ),
    ]
