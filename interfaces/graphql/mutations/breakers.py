"""Mutations of breakers."""

from interfaces.graphql.breakers import BREAKERS
from interfaces.graphql.mutations.kinds import ActOf, CreateOf


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
