"""What the engine dispatches goes into a table of its own, which can be shortened.

Servers of the version before go on writing to the other one; the view shows both.
"""

import django.utils.timezone
from django.db import migrations, models

LOG = """
CREATE OR REPLACE VIEW sessions_app_auditlog AS
    SELECT id, time, actor, door, via, action, object_type, object_id, project, domain, root, data
    FROM sessions_app_auditentry
    UNION ALL
    SELECT id, time, 'reprise'::varchar, 'task'::varchar, via, 'retry.dispatch'::varchar,
        'session'::varchar, object_id, project, domain, root, data
    FROM sessions_app_automaticdispatch;
"""
# Old ones are deleted; none is changed.
KEPT = """
CREATE OR REPLACE TRIGGER dispatch_kept BEFORE UPDATE ON sessions_app_automaticdispatch
    FOR EACH STATEMENT EXECUTE FUNCTION reprise_audit_kept();
"""


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0026_longer_creation_ids")]

    operations = [
        migrations.CreateModel(
            name="AutomaticDispatch",
            fields=[
                ("id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("time", models.DateTimeField()),
                ("via", models.JSONField(default=dict)),
                ("object_id", models.CharField(max_length=200)),
                ("project", models.CharField(max_length=128)),
                ("domain", models.CharField(max_length=63)),
                ("root", models.UUIDField(null=True)),
                ("data", models.JSONField(default=dict)),
            ],
            options={
                "verbose_name": "automatic dispatch",
                "verbose_name_plural": "automatic dispatches",
                "indexes": [
                    models.Index(models.F("time"), models.F("id"), name="dispatch_newest"),
                    models.Index(
                        models.F("project"),
                        models.F("time"),
                        models.F("id"),
                        name="dispatch_project",
                    ),
                    models.Index(
                        models.F("domain"), models.F("time"), models.F("id"), name="dispatch_domain"
                    ),
                    models.Index(models.F("object_id"), name="dispatch_object"),
                    models.Index(models.F("root"), name="dispatch_chain"),
                ],
            },
        ),
        migrations.CreateModel(
            name="AuditLog",
            fields=[
                ("time", models.DateTimeField(default=django.utils.timezone.now)),
                ("actor", models.CharField(max_length=150)),
                ("door", models.CharField(blank=True, db_default="", default="", max_length=16)),
                ("via", models.JSONField(blank=True, db_default={}, default=dict)),
                ("action", models.CharField(max_length=64)),
                ("object_type", models.CharField(max_length=32)),
                ("object_id", models.CharField(max_length=200)),
                ("project", models.CharField(blank=True, max_length=128)),
                ("domain", models.CharField(blank=True, db_default="", default="", max_length=63)),
                ("root", models.UUIDField(null=True)),
                ("data", models.JSONField(default=dict)),
                ("id", models.BigIntegerField(primary_key=True, serialize=False)),
            ],
            options={
                "verbose_name": "audit entry",
                "verbose_name_plural": "audit entries",
                "db_table": "sessions_app_auditlog",
                "managed": False,
            },
        ),
        migrations.RunSQL(LOG + KEPT, "DROP VIEW IF EXISTS sessions_app_auditlog;"),
    ]
