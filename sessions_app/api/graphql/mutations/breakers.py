"""Mutations of breakers."""

from sessions_app.api.graphql.breakers import BREAKERS
from sessions_app.api.graphql.mutations.kinds import ActOf, CreateOf


class OpenBreaker(CreateOf, of=BREAKERS): ...


class CloseBreaker(ActOf, of=BREAKERS, act="close"): ...


class MuteBreaker(ActOf, of=BREAKERS, act="mute"): ...


class UnmuteBreaker(ActOf, of=BREAKERS, act="unmute"): ...


class BreakerMutations:
    """The mutations of breakers."""

    open_breaker = OpenBreaker.Field()
    close_breaker = CloseBreaker.Field()
    mute_breaker = MuteBreaker.Field()
    unmute_breaker = UnmuteBreaker.Field()
