from django.conf import settings
from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    # Indexes on tables that are large and written to all the time.
    atomic = False

    dependencies = [
        ("sessions_app", "0002_tables"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="session",
            index=models.Index(
                models.F("project"),
                models.F("id"),
                condition=models.Q(("retry_state", "held")),
                name="session_held",
            ),
        ),
        RemoveIndexConcurrently(
            model_name="retrydecision",
            name="decision_held",
        ),
    ]
