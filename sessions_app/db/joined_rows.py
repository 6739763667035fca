"""Records read with their related records, by statements whose text is made once.

The ORM takes longer to make the text of such a statement than PostgreSQL to answer it. What comes
out are its own instances, related to each other as `select_related` relates them.

Django has no public way to make them so, so that this module does by hand what `Model.from_db` and
`select_related` do inside: it fills `__dict__` and `_state` without calling `__init__`, sends no
signals, and puts related instances into `_state.fields_cache`. `test_joined_rows.py` compares what
comes out with what the ORM makes: look there first when Django is upgraded.
"""

import json
from collections.abc import Sequence
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connection, models
from django.db.models.base import ModelState

# `json.loads` also looks for blanks around the value; PostgreSQL writes none.
_parse = json.JSONDecoder().raw_decode


class Part:
    """The columns of one model in a row, and the place of its instance.

    `path` leads there from the first part's instance, such as `project.domain`; `back` is the
    attribute of this instance that leads to that one.
    """

    def __init__(  # what there is to say
        self,
        model: type[models.Model],
        alias: str,
        path: str = "",
        *,
        only: str = "",
        without: str = "",
        back: str = "",
    ):
        every = model._meta.concrete_fields
        wanted = only.split() or [f.attname for f in every if f.attname not in without.split()]
        found = [field for field in every if field.attname in wanted]
        self.model, self.path, self.back = model, path, back
        self.parent, _, self.attribute = path.rpartition(".")
        self.names = [field.attname for field in found]
        self.columns = ", ".join(f'{alias}."{field.column}"' for field in found)
        self._json = [field.attname for field in found if isinstance(field, models.JSONField)]

    def make(self, values: Sequence[Any]) -> Any:
        """Return an instance as a query would; None where an outer join found nothing."""
        if values[0] is None:
            return None
        made = self.model.__new__(self.model)
        fields = made.__dict__
        fields.update(zip(self.names, values, strict=True))
        for name in self._json:
            if fields[name] is not None:
                fields[name], _ = _parse(fields[name])
        fields["_state"] = state = ModelState()
        state.adding, state.db = False, DEFAULT_DB_ALIAS
        return made


class JoinedRows:
    """A statement that returns instances of its first part, with the related ones attached.

    `{columns}` in it stands for all that is selected: the parts' columns, parents first, then the
    `extra` expressions, which become attributes of the first instance.
    """

    def __init__(self, sql: str, parts: Sequence[Part], **extra: str):
        columns = [each.columns for each in parts] + list(extra.values())
        self.sql = sql.replace("{columns}", ", ".join(columns))
        self._parts, self._extra = parts, list(extra)

    def read(self, parameters: Sequence[Any], *, more: str = "") -> list[Any]:
        """Return the instances; related records are shared. `more` is appended to the statement."""
        shared: dict[tuple[str, Any], Any] = {}
        return [self._made(row, shared) for row in read_rows(self.sql + more, parameters)]

    def _made(self, row: Sequence[Any], shared: dict[tuple[str, Any], Any]) -> Any:
        made: dict[str, Any] = {}
        end = 0
        for part in self._parts:
            start, end = end, end + len(part.names)
            key = (part.path, row[start])
            instance = shared.get(key)
            if instance is None:
                instance = shared[key] = part.make(row[start:end])
            made[part.path] = instance
            if part.path and made[part.parent] is not None:
                made[part.parent]._state.fields_cache[part.attribute] = instance  # noqa: SLF001
                if part.back and instance is not None:
                    instance._state.fields_cache[part.back] = made[part.parent]  # noqa: SLF001
        made[""].__dict__.update(zip(self._extra, row[end:], strict=True))
        return made[""]


def read_rows(sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return the rows of a statement."""
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows
