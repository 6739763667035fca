"""Advice about the retries of projects, computed once a day."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("sessions_app", "0061_retry_days"),
    ]

    operations = [
        migrations.CreateModel(
            name="RetryAdvice",
            fields=[
                (
                    "project",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="sessions_app.project",
                    ),
                ),
                ("computed_at", models.DateTimeField()),
                ("facts", models.JSONField()),
            ],
        ),
    ]
