"""All that the database holds, to look for what it must not."""

from django.db import connection


def everything_stored() -> str:
    """All rows of all tables as text."""
    texts = []
    with connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        for (table,) in cursor.fetchall():
            cursor.execute(f"SELECT coalesce(string_agg(t::text, ' '), '') FROM \"{table}\" t")
            texts += [text for (text,) in cursor.fetchall()]
    return " ".join(texts)
