from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("sessions_app", "0015_token_maker"),
    ]

    operations = [
        migrations.CreateModel(
            name="RequestBudget",
            fields=[
                ("key", models.BigIntegerField(primary_key=True, serialize=False)),
                ("available", models.FloatField()),
                ("granted", models.FloatField()),
                ("refilled_at", models.DateTimeField()),
            ],
        ),
        # It is written often, and worth nothing after a crash.
        migrations.RunSQL(
            "ALTER TABLE sessions_app_requestbudget SET UNLOGGED", migrations.RunSQL.noop
        ),
    ]
