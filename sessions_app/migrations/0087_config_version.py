"""A version tells processes whether what retries are decided by is still as they have read it.

It is random, not counted: no number comes twice, neither after a transaction that was rolled back,
nor in a database that was brought back to an earlier time. Its row is the last that a change of
configuration locks.
"""

from django.db import migrations, models

_CHANGED = """
CREATE OR REPLACE FUNCTION reprise_config_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO sessions_app_configversion (id, version) VALUES (1, gen_random_uuid())
    ON CONFLICT (id) DO UPDATE SET version = excluded.version;
    RETURN NULL;
END $$;
INSERT INTO sessions_app_configversion (id, version) VALUES (1, gen_random_uuid())
ON CONFLICT (id) DO NOTHING;
"""


def _changed(*columns: str) -> str:
    return " OR ".join(f"OLD.{column} IS DISTINCT FROM NEW.{column}" for column in columns)


_TABLES: dict[str, tuple[str, str, str]] = {
    # What has to hold for an UPDATE, an INSERT and a DELETE; "": none of them counts.
    "retrysettings": (_changed("*"), "true", "true"),
    "retrydefaults": (_changed("*"), "true", "true"),
    "failurecategory": (_changed("*"), "true", "true"),
    "retrypolicy": (_changed("name", "project_id", "domain_id", "revision"), "true", "true"),
    "project": (_changed("domain_id"), "", ""),
    "queue": (
        _changed("project_id", "retry_budget"),
        "NEW.retry_budget IS NOT NULL",
        "OLD.retry_budget IS NOT NULL",
    ),
    "breaker": (_changed("state", "probe"), "NEW.state = 'open'", "OLD.state = 'open'"),
    "failuresignature": (_changed("muted"), "NEW.muted", "OLD.muted"),
    "retrybudgetstate": (
        "(OLD.spent_since IS NULL) <> (NEW.spent_since IS NULL)",
        "NEW.spent_since IS NOT NULL",
        "OLD.spent_since IS NOT NULL",
    ),
}


def _followed(table: str, changed: str, added: str, gone: str) -> migrations.RunSQL:
    """Let the changes of a table give a new version.

    Each table has a step of its own: the lock that a trigger needs is held for that moment.
    """
    name = f"sessions_app_{table}"
    made = {"added": ("INSERT", added), "gone": ("DELETE", gone), "changed": ("UPDATE", changed)}
    return migrations.RunSQL(
        "".join(
            f"CREATE OR REPLACE TRIGGER config_{how} AFTER {event} ON {name} FOR EACH ROW"
            f" WHEN ({when}) EXECUTE FUNCTION reprise_config_changed();"
            for how, (event, when) in made.items()
            if when
        ),
        "".join(f"DROP TRIGGER IF EXISTS config_{how} ON {name};" for how in made),
    )


class Migration(migrations.Migration):
    # Each table is locked alone, for a moment.
    atomic = False

    dependencies = [("sessions_app", "0086_hours_of_days")]

    operations = [
        migrations.CreateModel(
            name="ConfigVersion",
            fields=[
                ("id", models.SmallIntegerField(primary_key=True, serialize=False)),
                ("version", models.UUIDField()),
            ],
        ),
        migrations.RunSQL(_CHANGED, "DROP FUNCTION reprise_config_changed()"),
        *(_followed(table, *when) for table, when in _TABLES.items()),
    ]
