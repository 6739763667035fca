from django.conf import settings
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    # Indexes on tables that are large and written to all the time.
    atomic = False

    dependencies = [
        ("sessions_app", "0003_held_by_project"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="auditentry",
            options={"verbose_name": "audit entry", "verbose_name_plural": "audit entries"},
        ),
        migrations.AlterModelOptions(
            name="retrydefaults",
            options={"verbose_name": "retry defaults", "verbose_name_plural": "retry defaults"},
        ),
        migrations.AlterModelOptions(
            name="retrysettings",
            options={"verbose_name": "retry settings", "verbose_name_plural": "retry settings"},
        ),
        AddIndexConcurrently(
            model_name="auditentry",
            index=models.Index(
                models.F("id"),
                condition=models.Q(("actor", "reprise"), _negated=True),
                name="audit_people",
            ),
        ),
        AddIndexConcurrently(
            model_name="session",
            index=models.Index(
                fields=["name"],
                opclasses=["varchar_pattern_ops"],
                condition=models.Q(("parent__isnull", True), models.Q(("name", ""), _negated=True)),
                name="session_root_name",
            ),
        ),
    ]
