"""The tables of columns say what the models say."""

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, models
from django.utils import timezone

from sessions_app.core.columns import NULL, SESSION, SPEC
from sessions_app.db.writes import Writes
from sessions_app.locks import LockedSession
from sessions_app.models import Session, SessionSpec
from sessions_app.services.write.transitions import Change, Event, sessions_change

# What a column is in PostgreSQL, without its length, and what its array is here.
KINDS = {
    "varchar": "text",
    "integer": "int",
    "timestamp with time zone": "timestamptz",
    "double precision": "float8",
}


def fields(model: type[models.Model]) -> dict[str, Any]:
    return {str(field.column): field for field in model._meta.concrete_fields}


def kind(field: Any) -> str:
    bare = str(field.db_type(connection)).partition("(")[0]
    return KINDS.get(bare, bare)


def test_sessions_have_these_columns() -> None:
    types = {name: column.type for name, column in SESSION.items()}
    assert types == {name: kind(field) for name, field in fields(Session).items()}


def test_specifications_have_these_columns() -> None:
    types = {name: kind(field) for name, field in fields(SessionSpec).items()}
    assert types == SPEC


@pytest.mark.parametrize("name", SESSION)
def test_columns_that_begin_as_null_are_nullable(name: str) -> None:
    assert SESSION[name].born != NULL or fields(Session)[name].null


def test_only_what_changes_or_is_counted_is_told() -> None:
    constant = {name for name, column in SESSION.items() if column.fact and not column.changes}
    assert constant == {"retry_counters"}, "a fact that no change sets is said once, at birth"


def test_locked_sessions_are_read_from_columns() -> None:
    assert set(LockedSession._fields) - SESSION.keys() == {"limited", "advanced", "best_before"}


@pytest.mark.parametrize("name", [*(n for n, c in SESSION.items() if not c.changes), "unheard_of"])
def test_a_change_sets_only_what_changes(name: str) -> None:
    session: Any = SimpleNamespace(id=UUID(int=1), event_seq=1)
    with pytest.raises(KeyError, match=name):
        sessions_change(Writes(), [Change(session, {name: 1}, [Event("any")])], now=timezone.now())
