"""An attempt's parent is found by the root of both: no index, and no constraint that needs one.

The constraint of the root stays. It keeps a root as long as any attempt of its chain is there, and
retention deletes whole chains.
"""

import django.db.models.deletion
from django.contrib.postgres.operations import RemoveIndexConcurrently
from django.db import migrations, models

_NAME = "sessions_app_session_parent_id_b6e017f0_fk_sessions_"
DROP = f"ALTER TABLE sessions_app_session DROP CONSTRAINT IF EXISTS {_NAME}"
BEFORE = f"""
    ALTER TABLE sessions_app_session ADD CONSTRAINT {_NAME} FOREIGN KEY (parent_id)
    REFERENCES sessions_app_session (id) DEFERRABLE INITIALLY DEFERRED NOT VALID
"""


class Migration(migrations.Migration):
    # An index on a table that is large and written to all the time.
    atomic = False

    dependencies = [("sessions_app", "0091_dispatch_looks_less")]

    operations = [
        # First: without its index, the constraint would read all sessions for each deleted one.
        migrations.SeparateDatabaseAndState(
            [migrations.RunSQL(DROP, BEFORE)],
            [
                migrations.AlterField(
                    "session",
                    "parent",
                    models.ForeignKey(
                        "sessions_app.session",
                        django.db.models.deletion.PROTECT,
                        null=True,
                        related_name="children",
                        db_index=False,
                        db_constraint=False,
                    ),
                )
            ],
        ),
        RemoveIndexConcurrently("session", "session_children"),
    ]
