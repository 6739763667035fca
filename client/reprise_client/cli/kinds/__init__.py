"""The kinds of things that documents describe, in the order in which they depend on each other."""

from difflib import get_close_matches
from typing import Any

from reprise_client.cli.exits import USAGE, CommandError
from reprise_client.cli.kinds.base import Kind
from reprise_client.cli.kinds.category import CategoryKind
from reprise_client.cli.kinds.defaults import DefaultsKind
from reprise_client.cli.kinds.executor import ExecutorKind
from reprise_client.cli.kinds.membership import MembershipKind
from reprise_client.cli.kinds.policy import PolicyKind
from reprise_client.cli.kinds.priority_class import PriorityClassKind
from reprise_client.cli.kinds.queue import QueueKind
from reprise_client.cli.kinds.schedule import ScheduleKind
from reprise_client.cli.kinds.tenant import DomainKind, ProjectKind
from reprise_client.cli.kinds.token import TokenKind
from reprise_client.cli.kinds.webhook import WebhookKind

KINDS: tuple[Kind[Any], ...] = (
    DomainKind(),
    ProjectKind(),
    MembershipKind(),
    CategoryKind(),
    PriorityClassKind(),
    PolicyKind(),
    DefaultsKind(),
    QueueKind(),
    ScheduleKind(),
    ExecutorKind(),
    TokenKind(),
    WebhookKind(),
)


def kind_called(word: str) -> Kind[Any]:
    """Return the kind for a typed word. Raises `CommandError`."""
    for kind in KINDS:
        if word.lower() in kind.words:
            return kind
    known = ", ".join(kind.words[0] for kind in KINDS)
    words = [each for kind in KINDS for each in kind.words]
    close = get_close_matches(word.lower(), words, n=1)
    near = f" (did you mean {close[0]}?)" if close else ""
    raise CommandError(f"there is no kind {word!r}{near}; the kinds are: {known}", USAGE)


def kind_named(name: object) -> Kind[Any] | None:
    """Return the kind of a document, or None."""
    return next((kind for kind in KINDS if kind.name == name), None)
