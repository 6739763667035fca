"""Shared retry budgets: their settings, the minutes that count in them, and the verdicts."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0069_breakers_audited")]

    operations = [
        migrations.AddField(
            "retrysettings", "retry_budget", models.JSONField(blank=True, null=True)
        ),
        migrations.AddField("queue", "retry_budget", models.JSONField(blank=True, null=True)),
        migrations.AddField("retrydecision", "held_order", models.DateTimeField(null=True)),
        migrations.CreateModel(
            name="RetryBudgetMinute",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scope", models.CharField(max_length=40)),
                ("minute", models.DateTimeField()),
                ("first_attempts", models.PositiveIntegerField(default=0)),
                ("retries", models.PositiveIntegerField(default=0)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint("scope", "minute", name="retry_budget_one_a_minute")
                ],
            },
        ),
        migrations.CreateModel(
            name="RetryBudgetState",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scope", models.CharField(max_length=40, unique=True)),
                ("spent_since", models.DateTimeField(null=True)),
                ("judged_at", models.DateTimeField()),
                ("spent_times", models.PositiveIntegerField(default=0)),
            ],
        ),
    ]
