"""Breakers, as calls: signatures of failures whose retries wait."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from reprise_client.calls import Calls, part, present
from reprise_client.models import Breaker, BreakerEvent


class BreakerCalls(Calls):
    """The calls about breakers."""

    def breakers(self, **filters: Any) -> Iterator[Breaker]:
        """Yield breakers, those that opened last first; `filters` are `project` (without the
        cluster's), `state`: `open` or `closed`, and `signature`."""
        return self._pages(Breaker, "/breakers/", filters)

    def breaker(self, breaker_id: UUID | str) -> Breaker:
        """Return one breaker."""
        return self._get(Breaker, f"/breakers/{part(str(breaker_id))}/")

    def breaker_events(self, breaker_id: UUID | str, **page: Any) -> Iterator[BreakerEvent]:
        """Yield when a breaker opened and closed, the newest first."""
        return self._pages(BreakerEvent, f"/breakers/{part(str(breaker_id))}/events/", page)

    def breaker_open(
        self,
        signature: str,
        *,
        project: str | None = None,
        queue: str | None = None,
        reason: str = "",
    ) -> Breaker:
        """Open the breaker of a signature in a queue, a project, or without one in the cluster."""
        body = present({"project": project, "queue": queue})
        body |= {"signature": signature, "reason": reason}
        return self._send(Breaker, "POST", "/breakers/", body)

    def breaker_close(
        self, breaker_id: UUID | str, *, reason: str = "", mute: bool = False
    ) -> Breaker:
        """Close a breaker; with `mute`, it does not open by itself any more."""
        path = f"/breakers/{part(str(breaker_id))}/close/"
        body = {"reason": reason, "mute": mute}
        return self._send(Breaker, "POST", path, body, idempotent=True)

    def breaker_mute(self, breaker_id: UUID | str) -> Breaker:
        """Keep a breaker from opening by itself; one that is open stays open."""
        path = f"/breakers/{part(str(breaker_id))}/mute/"
        return self._send(Breaker, "POST", path, {}, idempotent=True)

    def breaker_unmute(self, breaker_id: UUID | str) -> Breaker:
        """Let a muted breaker open by itself again."""
        path = f"/breakers/{part(str(breaker_id))}/unmute/"
        return self._send(Breaker, "POST", path, {}, idempotent=True)
