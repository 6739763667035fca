"""The audit context: tells the database who acts through which door, for its audit triggers.

A door names itself around all that it does (`through`), which costs nothing. A service that changes
configuration names the author (`audited`). Inside that, before a statement that writes such a
table, both are written to a setting of the transaction. Reads, and changes of sessions, cost no
additional statement.
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
"""The author of changes that no person made."""
Door = Literal["rest", "graphql", "admin", "web", "task", "command", "sql"]
"""`sql` is the door of clients that named none, such as psql; their actor is the database role."""
DOORS: tuple[str, ...] = get_args(Door)
REST, GRAPHQL, ADMIN, WEB, TASK, COMMAND, SQL = DOORS

_TABLES = (
    "sessions_app_(?:domain|project|projectusage|membership|apitoken|queue|retrydefaults"
    "|retrysettings|failurecategory|priorityclass|schedule|webhookendpoint|retrypolicy|retrypolicyrevision)"
    "|scheduler_executor(?:_projects)?|auth_(?:user|group)"
    "|django_celery_beat_(?:periodictask|(?:interval|crontab|clocked)schedule)"
)
_WRITES = re.compile(
    rf'\b(?:INSERT\s+INTO|UPDATE|DELETE\s+FROM)\s+"?(?:{_TABLES})\b', re.IGNORECASE
)
_SET_CONTEXT = "SELECT set_config('reprise.audit', %s, true)"


@dataclass(frozen=True, slots=True)
class AuditContext:
    """The author and the door; `via` adds details: the token, the request, the task."""

    actor: str = ""
    door: str = COMMAND
    via: dict[str, str] = field(default_factory=dict)
    action: str = ""
    """The name of the action, if it is not `<kind>.change`: `executor.drain`."""
    writing: bool = False

    def setting_text(self) -> str:
        """Return the text of the setting that the triggers read."""
        facts = {"actor": self.actor, "door": self.door, "via": self.via, "action": self.action}
        return json.dumps(facts)


_SCRIPT = AuditContext()
_current: ContextVar[AuditContext] = ContextVar("audit_context", default=_SCRIPT)


def current() -> AuditContext:
    """Return the context of the running code; that of a command if no door has named itself."""
    return _current.get()


@contextmanager
def through(door: str, **via: str) -> Iterator[None]:
    """Record changes inside the block as made through a door."""
    token = _current.set(AuditContext(door=door, via=_known(via)))
    try:
        yield
    finally:
        _current.reset(token)


def identify(**via: str) -> None:
    """Add details about the open door once they are known, such as the token."""
    known = _current.get()
    if known is not _SCRIPT:
        _current.set(replace(known, via={**known.via, **_known(via)}))


def _known(via: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in via.items() if text}


@contextmanager
def audited(*, by: str, action: str = "") -> Iterator[None]:
    """Record changes inside the block as made by somebody; "" keeps the outer author.

    `action` is the name of the action, if it is not `<kind>.change`. Later changes in the same
    transaction have no author again.
    """
    outer = _current.get()
    inner = replace(outer, actor=by or outer.actor, action=action, writing=True)
    token = _current.set(inner)
    try:
        with nullcontext() if outer.writing else _writing_context():
            yield
    finally:
        _current.reset(token)


@contextmanager
def _writing_context() -> Iterator[None]:
    writer = _ContextWriter()
    with connection.execute_wrapper(writer):
        yield
    # The setting ends with the transaction; if that continues, the setting must be cleared.
    if writer.written and connection.in_atomic_block and not connection.needs_rollback:
        _set("")


@lru_cache(maxsize=1024)
def _writes_configuration(sql: str) -> bool:
    return _WRITES.search(sql) is not None


class _ContextWriter:
    """Writes the context to the database before each statement that changes configuration."""

    written = False

    def __call__(
        self, execute: Any, sql: Any, params: Any, many: bool, context: dict[str, Any]
    ) -> Any:
        known = _current.get()
        if not known.actor or not isinstance(sql, str) or not _writes_configuration(sql):
            return execute(sql, params, many, context)
        self.written = True
        if context["connection"].in_atomic_block:
            _set(known.setting_text())
            return execute(sql, params, many, context)
        # In autocommit mode the setting would end with its own statement.
        with transaction.atomic():
            _set(known.setting_text())
            return execute(sql, params, many, context)


def _set(text: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_SET_CONTEXT, [text])
