"""The tables of a new database, in one step (decision 0075).

To migrate a new database takes Django three quarters of a first start, for models that it renders
again at each step. `schema.sql` has what the migrations leave; `make schema` writes it. Migrations
that are newer than the file run after it, as ever.
"""

import re
import subprocess
from pathlib import Path

import psycopg

from reprise.standalone.postgres_account import environment
from reprise.standalone.postgres_binaries import Binaries

SCHEMA = Path(__file__).with_name("schema.sql")
_HEAD = "-- What the migrations leave in PostgreSQL {}; written by `make schema`.\n"
_OPTIONS = ("--schema-only", "--no-owner", "--no-comments", "--restrict-key=none")
# What the dump says of itself, and settings that shall end with the transaction.
_NOISE = re.compile(r"^(--.*|\\.*|)\n", re.MULTILINE)
_SETTING = re.compile(r"^SET (?=\w+ =)|(?<='search_path', '', )false", re.MULTILINE)
_SCOPED = {"SET ": "SET LOCAL ", "false": "true"}
_IS_NEW = "SELECT NOT EXISTS (SELECT FROM pg_class WHERE relnamespace = 'public'::regnamespace)"
_APPLIED = "SELECT app, name FROM django_migrations ORDER BY id"
# When the dumped database was new (sessions_app/migrations/0007_event_epoch.py).
_EPOCH = re.compile(r"(?<=SELECT )\d+(?=::bigint \$\$;)")
# What a database has of its own, and the rows that migrations write, which nobody audits. It runs
# after the file, in its transaction. The rows of `post_migrate` come when it is sent.
_OWN = """\
DO $own$ BEGIN
    EXECUTE format(
        'CREATE OR REPLACE FUNCTION public.reprise_epoch() RETURNS bigint LANGUAGE sql '
        'STABLE PARALLEL SAFE AS $$ SELECT %s::bigint $$', extract(epoch FROM now())::bigint);
END $own$;
SET LOCAL session_replication_role = replica;
INSERT INTO public.reprise_knownserver (system_identifier, timeline)
    SELECT system_identifier, timeline FROM public.reprise_server();
INSERT INTO public.sessions_app_configversion (id, version) VALUES (1, gen_random_uuid());
INSERT INTO public.sessions_app_priorityclass (name, value, preemptible, may_preempt,
        protected_for, domains, projects, created_at, updated_at)
    VALUES ('default', 0, true, false, 0, '[]', '[]', now(), now());
"""
_RECORD = "INSERT INTO public.django_migrations (app, name, applied) VALUES\n"


def create_schema(url: str) -> bool:
    """Create all tables if the database is new; return whether it was.

    It is done as a whole or not at all. A server of another major version than that of the file
    is left to the migrations.
    """
    with psycopg.connect(url) as connection:
        if connection.execute(_IS_NEW).fetchone() != (True,):
            return False
        text = SCHEMA.read_text()
        if not text.startswith(_HEAD.format(connection.info.server_version // 10_000)):
            return False
        connection.execute(text.encode())
        connection.execute(_OWN)
    return True


def schema_of(url: str, binaries: Binaries) -> str:
    """Return what `schema.sql` has to be, from a database that has just been migrated."""
    command = [binaries.program("pg_dump"), *_OPTIONS, f"--dbname={url}"]
    dumped = subprocess.run(
        command, env=environment(), stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    tables = _SETTING.sub(lambda found: _SCOPED[found[0]], _NOISE.sub("", dumped))
    tables = _EPOCH.sub("0", tables)
    with psycopg.connect(url) as connection:
        applied = connection.execute(_APPLIED).fetchall()
    rows = ",\n".join(f"    ('{app}', '{name}', now())" for app, name in applied)
    return "".join((_HEAD.format(binaries.major), tables, _RECORD, rows, ";\n"))
