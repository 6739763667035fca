"""Changes of priority classes are told to the audit log by the database."""

from django.db import migrations

from sessions_app.migrations._audit_triggers import audited


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0073_priority_classes")]

    operations = [
        audited(
            "sessions_app_priorityclass",
            "priority_class",
            [
                *("name", "value", "preemptible", "may_preempt", "protected_for"),
                *("domains", "projects"),
            ],
        ),
    ]
