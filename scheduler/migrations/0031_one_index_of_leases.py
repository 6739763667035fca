"""One index finds the leases of an executor and orders them by token.

Tokens come from a sequence, which gives each number once.
"""

import django.db.models.deletion
from django.db import migrations, models

_INDEX = "scheduler_lease_executor_id_73ca9bd6"
_UNIQUE = "scheduler_lease_fencing_token_key"
_CREATE = """
    CREATE UNIQUE INDEX CONCURRENTLY lease_of_executor
    ON scheduler_lease (executor_id, fencing_token)
"""
STEPS = [
    # What a run that was interrupted has left.
    ("DROP INDEX CONCURRENTLY IF EXISTS lease_of_executor", migrations.RunSQL.noop),
    (_CREATE, "DROP INDEX CONCURRENTLY IF EXISTS lease_of_executor"),
    (
        f"DROP INDEX CONCURRENTLY IF EXISTS {_INDEX}",
        f"CREATE INDEX CONCURRENTLY {_INDEX} ON scheduler_lease (executor_id)",
    ),
    (
        f"ALTER TABLE scheduler_lease DROP CONSTRAINT IF EXISTS {_UNIQUE}",
        f"ALTER TABLE scheduler_lease ADD CONSTRAINT {_UNIQUE} UNIQUE (fencing_token)",
    ),
]


class Migration(migrations.Migration):
    # Indexes on a table that is written to all the time.
    atomic = False

    dependencies = [("scheduler", "0030_reservation_limited_since")]

    operations = [
        migrations.SeparateDatabaseAndState(
            [migrations.RunSQL(*step) for step in STEPS],
            [
                migrations.AddConstraint(
                    "lease",
                    models.UniqueConstraint("executor", "fencing_token", name="lease_of_executor"),
                ),
                migrations.AlterField("lease", "fencing_token", models.BigIntegerField()),
                migrations.AlterField(
                    "lease",
                    "executor",
                    models.ForeignKey(
                        "scheduler.executor",
                        django.db.models.deletion.PROTECT,
                        related_name="leases",
                        db_index=False,
                    ),
                ),
            ],
        )
    ]
