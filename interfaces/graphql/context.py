"""The caller, as every resolver finds it in `info.context`."""

from dataclasses import dataclass
from typing import Any

from sessions_app.authorization import Actor
from sessions_app.models import ApiToken


@dataclass(frozen=True, slots=True)
class Context:
    """The context of one call of `/graphql/`."""

    actor: Actor
    token: ApiToken | None
    """None for callers with a browser's session."""
    method: str = "POST"
    """graphene-django reads this attribute of a request."""


def actor_of(info: Any) -> Actor:
    """Return the caller."""
    actor: Actor = info.context.actor
    return actor
