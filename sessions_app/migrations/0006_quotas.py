import django.db.models.deletion
from django.db import migrations, models

# Small rows that are written all the time: room on the page, so that each update stays there.
STORAGE = "ALTER TABLE sessions_app_projectusage SET (fillfactor = 30)"


class Migration(migrations.Migration):
    dependencies = [
        ("sessions_app", "0005_named_policies"),
    ]

    operations = [
        migrations.CreateModel(
            name="ProjectUsage",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=140)),
                ("limit", models.DecimalField(decimal_places=9, max_digits=40, null=True)),
                ("used", models.DecimalField(decimal_places=9, default=0, max_digits=40)),
                (
                    "domain",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="quotas",
                        to="sessions_app.domain",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="quotas",
                        to="sessions_app.project",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("domain__isnull", False), ("project__isnull", True)),
                            models.Q(("domain__isnull", True), ("project__isnull", False)),
                            _connector="OR",
                        ),
                        name="usage_one_scope",
                    ),
                    models.UniqueConstraint(
                        models.F("project"), models.F("name"), name="usage_project_name_unique"
                    ),
                    models.UniqueConstraint(
                        models.F("domain"), models.F("name"), name="usage_domain_name_unique"
                    ),
                ],
            },
        ),
        migrations.RunSQL(STORAGE, migrations.RunSQL.noop),
    ]
