"""Rate limits: too many calls of one token, or from one address without a valid one, get a 429."""

import zlib

from django.conf import settings
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from interfaces.http.addresses import request_address
from sessions_app.authorization import Actor
from sessions_app.models import ApiToken
from sessions_app.services.access.throttle import call_permit

ADDRESS_GROUPS = 4096
"""The number of groups of addresses with a common budget, so that nobody can fill the table."""


class _Throttle(BaseThrottle):
    """Limits the calls of one bearer to the budget of a token."""

    _wait = 0.0

    def budget(self, request: Request) -> int | None:
        """Return the key of the bearer's budget; None if this throttle does not count the call."""
        raise NotImplementedError

    def allow_request(self, request: Request, view: object) -> bool:
        key = self.budget(request)
        if key is not None:
            self._wait = call_permit(key, int(settings.REPRISE["token_requests_per_minute"]))
        return not self._wait

    def wait(self) -> float:
        return self._wait


class TokenThrottle(_Throttle):
    """Limits calls with a valid token."""

    def budget(self, request: Request) -> int | None:
        token: object = request.auth
        return token.budget_key if isinstance(token, ApiToken) else None


class BrowserThrottle(_Throttle):
    """Limits calls with a browser's session. Each person has the budget of a token."""

    def budget(self, request: Request) -> int | None:
        actor: object = request.user
        if request.auth is None and isinstance(actor, Actor) and actor.user is not None:
            return int(-1 - ADDRESS_GROUPS - actor.user.pk)
        return None


def refusal_wait(request: Request) -> float:
    """Return the seconds that a refused caller must wait before the next try; usually 0."""
    group = zlib.crc32(request_address(request).encode()) % ADDRESS_GROUPS
    return call_permit(-1 - group, int(settings.REPRISE["anonymous_requests_per_minute"]))
