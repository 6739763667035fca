"""Who asks, and through which door: told to the database, whose triggers write the audit log.

A door says what it is around all that it does (`through`), which costs nothing. A service that
changes configuration says on whose behalf (`audited`): there, before a statement that writes such
a table, the two become a setting of the transaction. What reads, and what moves sessions, costs
no statement more.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal, get_args

from django.db import connection, transaction

ENGINE = "reprise"
"""The author of what no person did."""
Door = Literal["rest", "graphql", "admin", "web", "task", "command", "sql"]
"""`sql` is that of what told nothing of itself, such as psql; the actor is the database's role."""
DOORS: tuple[str, ...] = get_args(Door)
REST, GRAPHQL, ADMIN, WEB, TASK, COMMAND, SQL = DOORS

_TABLES = (
    "sessions_app_(?:domain|project|projectusage|membership|apitoken|queue|retrydefaults"
    "|retrysettings|failurecategory|webhookendpoint|retrypolicy|retrypolicyrevision)"
    "|scheduler_executor(?:_projects)?|auth_(?:user|group)"
    "|django_celery_beat_(?:periodictask|(?:interval|crontab|clocked)schedule)"
)
_WRITES = re.compile(
    rf'\b(?:INSERT\s+INTO|UPDATE|DELETE\s+FROM)\s+"?(?:{_TABLES})\b', re.IGNORECASE
)
_TELL = "SELECT set_config('reprise.audit', %s, true)"


@dataclass(frozen=True, slots=True)
class AuditContext:
    """Who acts; `via` says more of the door: the token, the request, the task."""

    actor: str = ""
    door: str = COMMAND
    via: dict[str, str] = field(default_factory=dict)
    action: str = ""
    """What a change is called, if not `<kind>.change`: `executor.drain`."""
    telling: bool = False

    def told(self) -> str:
        """The setting that the triggers read."""
        facts = {"actor": self.actor, "door": self.door, "via": self.via, "action": self.action}
        return json.dumps(facts)


_SCRIPT = AuditContext()
_current: ContextVar[AuditContext] = ContextVar("audit_context", default=_SCRIPT)


def current() -> AuditContext:
    """The context of what runs now; a command's, if no door said what it is."""
    return _current.get()


@contextmanager
def through(door: str, **via: str) -> Iterator[None]:
    """Let what is done within be told as come through a door."""
    token = _current.set(AuditContext(door=door, via=_known(via)))
    try:
        yield
    finally:
        _current.reset(token)


def identify(**via: str) -> None:
    """Say more of the door that is open, as far as it is known, such as the token."""
    known = _current.get()
    if known is not _SCRIPT:
        _current.set(replace(known, via={**known.via, **_known(via)}))


def _known(via: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in via.items() if text}


@contextmanager
def audited(*, by: str, action: str = "") -> Iterator[None]:
    """Let what is changed within be told as done by somebody; without a name as by who is outside.

    `action` is what a change is called, if not `<kind>.change`. What the same transaction writes
    afterwards is nobody's act again.
    """
    outer = _current.get()
    inner = replace(outer, actor=by or outer.actor, action=action, telling=True)
    token = _current.set(inner)
    try:
        with nullcontext() if outer.telling else _telling():
            yield
    finally:
        _current.reset(token)


@contextmanager
def _telling() -> Iterator[None]:
    teller = _Teller()
    with connection.execute_wrapper(teller):
        yield
    # The setting ends with the transaction; one that goes on must not say it any longer.
    if teller.told and connection.in_atomic_block and not connection.needs_rollback:
        _set("")


@lru_cache(maxsize=1024)
def _writes_configuration(sql: str) -> bool:
    return _WRITES.search(sql) is not None


class _Teller:
    """Tells the database who acts, before each statement that writes configuration."""

    told = False

    def __call__(
        self, execute: Any, sql: Any, params: Any, many: bool, context: dict[str, Any]
    ) -> Any:
        known = _current.get()
        if not known.actor or not isinstance(sql, str) or not _writes_configuration(sql):
            return execute(sql, params, many, context)
        self.told = True
        if context["connection"].in_atomic_block:
            _set(known.told())
            return execute(sql, params, many, context)
        # Of a transaction of its own the setting would end with itself.
        with transaction.atomic():
            _set(known.told())
            return execute(sql, params, many, context)


def _set(told: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_TELL, [told])
