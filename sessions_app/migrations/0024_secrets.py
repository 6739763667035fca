from django.db import migrations, models

from sessions_app.migrations._audit_triggers import audited

WEBHOOKS = "sessions_app_webhookendpoint"


class Migration(migrations.Migration):
    # What is in the columns stays as it is: `manage.py encrypt_secrets` encrypts it, once no server
    # of the version before works any more.
    dependencies = [("sessions_app", "0023_token_budget")]

    operations = [
        # No column that a trigger looks at can be made wider.
        migrations.RunSQL(
            f"DROP TRIGGER IF EXISTS audit_changed ON {WEBHOOKS}", migrations.RunSQL.noop
        ),
        migrations.AlterField(
            model_name="webhookendpoint",
            name="secret",
            field=models.CharField(max_length=300),
        ),
        migrations.AlterField(
            model_name="webhookendpoint",
            name="previous_secret",
            field=models.CharField(blank=True, max_length=300),
        ),
        audited(
            WEBHOOKS,
            "webhook",
            [
                *("project_id", "url", "description", "event_types", "created_by"),
                *("paused_at", "paused_reason"),
            ],
            secret=["secret", "previous_secret"],
        ),
        migrations.AddField(
            model_name="sessionspec",
            name="secret_environ",
            field=models.TextField(null=True),
        ),
        migrations.AddField(
            model_name="sessionspec",
            name="secret_names",
            field=models.JSONField(null=True),
        ),
    ]
