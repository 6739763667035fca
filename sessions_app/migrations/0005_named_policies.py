import django.db.models.deletion
import django.utils.timezone
from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models
from django.db.models import F, Q


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0004_operators")]

    operations = [
        migrations.CreateModel(
            name="FailureCategory",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=63, unique=True)),
                ("position", models.IntegerField()),
                ("matchers", models.JSONField()),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("updated_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={"verbose_name_plural": "failure categories"},
        ),
        migrations.CreateModel(
            name="RetryPolicy",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "domain",
                    models.ForeignKey(
                        "sessions_app.domain",
                        django.db.models.deletion.CASCADE,
                        null=True,
                        blank=True,
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        "sessions_app.project",
                        django.db.models.deletion.CASCADE,
                        null=True,
                        blank=True,
                    ),
                ),
                ("name", models.CharField(max_length=63)),
                ("revision", models.PositiveIntegerField()),
                ("archived_at", models.DateTimeField(null=True, blank=True)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                "verbose_name_plural": "retry policies",
                "indexes": [models.Index(F("name"), name="retry_policy_by_name")],
                "constraints": [
                    models.UniqueConstraint(
                        F("domain"),
                        F("project"),
                        F("name"),
                        name="retry_policy_name_unique",
                        nulls_distinct=False,
                    ),
                    models.CheckConstraint(
                        condition=Q(domain__isnull=True) | Q(project__isnull=True),
                        name="retry_policy_one_scope",
                    ),
                    models.CheckConstraint(
                        condition=Q(name__regex=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"),
                        name="retry_policy_name_label",
                    ),
                    models.CheckConstraint(
                        condition=Q(revision__gt=0), name="retry_policy_revision_positive"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="RetryPolicyRevision",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "policy",
                    models.ForeignKey(
                        "sessions_app.retrypolicy",
                        django.db.models.deletion.CASCADE,
                        related_name="revisions",
                        db_index=False,
                    ),
                ),
                ("revision", models.PositiveIntegerField()),
                ("document", models.JSONField()),
                ("created_at", models.DateTimeField()),
                ("created_by", models.CharField(max_length=150)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        F("policy"), F("revision"), name="retry_policy_revision_unique"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="RetrySlots",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "queue",
                    models.ForeignKey(
                        "sessions_app.queue",
                        django.db.models.deletion.CASCADE,
                        null=True,
                        related_name="+",
                    ),
                ),
                ("minute", models.DateTimeField()),
                ("taken", models.PositiveIntegerField()),
            ],
            options={
                "verbose_name": "retry slots",
                "verbose_name_plural": "retry slots",
                "constraints": [
                    models.UniqueConstraint(
                        F("queue"),
                        F("minute"),
                        name="retry_slots_one_a_minute",
                        nulls_distinct=False,
                    )
                ],
            },
        ),
        migrations.AddField(
            "queue", "retry_policies", models.JSONField(default=list, db_default=[], blank=True)
        ),
        migrations.AddField("retrydecision", "resources", models.JSONField(null=True)),
        migrations.AddField(
            "retrydecision", "paced", models.BooleanField(default=False, db_default=False)
        ),
        migrations.AddField("retrydecision", "preempted_at", models.DateTimeField(null=True)),
        migrations.AddField(
            "retrydecision",
            "requested_by",
            models.CharField(max_length=150, blank=True, default="", db_default=""),
        ),
        migrations.AddField(
            "retrysettings",
            "default_policy",
            models.CharField(max_length=63, blank=True, default="", db_default=""),
        ),
        migrations.AddField(
            "retrysettings",
            "retries_per_minute",
            models.PositiveIntegerField(null=True, blank=True),
        ),
        migrations.AddField(
            "retrysettings",
            "queue_retries_per_minute",
            models.PositiveIntegerField(null=True, blank=True),
        ),
        # Every row satisfies it: the columns are new. So nothing has to be validated.
        AddConstraintNotValid(
            "retrysettings",
            models.CheckConstraint(
                condition=Q(
                    default_policy="",
                    retries_per_minute__isnull=True,
                    queue_retries_per_minute__isnull=True,
                )
                | Q(domain__isnull=True, project__isnull=True),
                name="retry_settings_policy_is_the_clusters",
            ),
        ),
    ]
