from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("sessions_app", "0018_audit_columns"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="auditentry",
            index=models.Index(models.F("time"), models.F("id"), name="audit_newest"),
        ),
        AddIndexConcurrently(
            model_name="auditentry",
            index=models.Index(
                models.F("time"),
                models.F("id"),
                condition=models.Q(("actor", "reprise"), _negated=True),
                name="audit_of_people",
            ),
        ),
        AddIndexConcurrently(
            model_name="auditentry",
            index=models.Index(
                models.F("project"), models.F("time"), models.F("id"), name="audit_project"
            ),
        ),
        AddIndexConcurrently(
            model_name="auditentry",
            index=models.Index(
                models.F("domain"), models.F("time"), models.F("id"), name="audit_domain"
            ),
        ),
        AddIndexConcurrently(
            model_name="auditentry",
            index=models.Index(
                models.F("project"),
                models.F("time"),
                models.F("id"),
                condition=models.Q(("actor", "reprise"), _negated=True),
                name="audit_project_people",
            ),
        ),
        AddIndexConcurrently(
            model_name="auditentry",
            index=models.Index(
                models.F("domain"),
                models.F("time"),
                models.F("id"),
                condition=models.Q(("actor", "reprise"), _negated=True),
                name="audit_domain_people",
            ),
        ),
        AddIndexConcurrently(
            model_name="auditentry",
            index=models.Index(
                models.F("actor"),
                models.F("time"),
                models.F("id"),
                condition=models.Q(("actor", "reprise"), _negated=True),
                name="audit_actor",
            ),
        ),
        AddIndexConcurrently(
            model_name="auditentry",
            index=models.Index(
                models.F("door"),
                models.F("time"),
                models.F("id"),
                condition=models.Q(("actor", "reprise"), _negated=True),
                name="audit_door",
            ),
        ),
        AddIndexConcurrently(
            model_name="auditentry",
            index=models.Index(
                models.F("action"),
                models.F("time"),
                models.F("id"),
                condition=models.Q(("action", "retry.dispatch"), _negated=True),
                name="audit_action",
            ),
        ),
        AddIndexConcurrently(
            model_name="auditentry",
            index=models.Index(
                models.F("object_type"),
                models.F("time"),
                models.F("id"),
                condition=models.Q(("object_type", "session"), _negated=True),
                name="audit_type",
            ),
        ),
        AddIndexConcurrently(
            model_name="auditentry",
            index=models.Index(
                models.F("root"), condition=models.Q(("root__isnull", False)), name="audit_chain"
            ),
        ),
        RemoveIndexConcurrently(
            model_name="auditentry",
            name="audit_people",
        ),
    ]
