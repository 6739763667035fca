"""Events say in which life of the database they were written: see `reprise/upkeep/restored.py`."""

import django.db.models.expressions
from django.db import migrations, models

# A constant while the database lives, so that planning a statement is all that it costs; a restore
# replaces it. STABLE and not IMMUTABLE: a plan that was made before must not go on with the old one.
# It begins with the time, as those after it do, and not with 0: the place of a reader of another
# database, which had this address before, must not be ahead of everything that this one tells.
EPOCH = """
DO $migration$ BEGIN
    EXECUTE format(
        'CREATE FUNCTION reprise_epoch() RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE '
        'AS $$ SELECT %s::bigint $$', extract(epoch FROM clock_timestamp())::bigint);
END $migration$;
"""
# In two steps: a column with a constant default is added without writing any row anew.
COLUMN = """
ALTER TABLE sessions_app_sessionevent ADD COLUMN epoch bigint DEFAULT 0 NOT NULL;
ALTER TABLE sessions_app_sessionevent ALTER COLUMN epoch SET DEFAULT reprise_epoch();
"""


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0006_quotas")]

    operations = [
        migrations.RunSQL(EPOCH, "DROP FUNCTION reprise_epoch();"),
        migrations.RunSQL(
            COLUMN,
            "ALTER TABLE sessions_app_sessionevent DROP COLUMN epoch;",
            state_operations=[
                migrations.AddField(
                    model_name="sessionevent",
                    name="epoch",
                    field=models.BigIntegerField(
                        db_default=django.db.models.expressions.RawSQL("reprise_epoch()", ())
                    ),
                ),
            ],
        ),
    ]
