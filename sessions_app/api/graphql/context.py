"""Who asks, as every resolver finds it in `info.context`."""

from dataclasses import dataclass
from typing import Any

from sessions_app.authorization import Actor
from sessions_app.models import ApiToken


@dataclass(frozen=True, slots=True)
class Context:
    """One call of `/graphql/`."""

    actor: Actor
    token: ApiToken | None
    """None: they came with a browser's session."""
    method: str = "POST"
    """What graphene-django looks at of a request."""


def actor_of(info: Any) -> Actor:
    """Who asks."""
    actor: Actor = info.context.actor
    return actor
