"""A wire that loses, doubles, reorders and replays reports, as a script asks."""

from collections import deque
from collections.abc import Callable, Sequence
from random import Random

from reprise_client.errors import ServerUnreachable
from reprise_client.transport import Transport
from reprise_client.wire import Outcome, Report, Wire

from executor.drivers.simulated.script import Script

REMEMBERED = 200
REPLAYED = 20


class UnreliableWire(Wire):
    """Sends the agent's reports unreliably, and returns what the server answered to them.

    It calls `on_trouble` with the kind of each trouble.
    """

    def __init__(
        self,
        transport: Transport,
        name: str,
        *,
        script: Script,
        random: Random,
        on_trouble: Callable[[str], None],
    ):
        super().__init__(transport, name)
        self._url = transport.url
        self._script = script
        self._random = random
        self._on_trouble = on_trouble
        self._past: deque[Report] = deque(maxlen=REMEMBERED)

    def report(self, incarnation: int, reports: Sequence[Report]) -> list[Outcome]:
        script = self._script
        if script.clock_offset:
            reports = [{**each, "at": each["at"] + script.clock_offset} for each in reports]
        if self._happens(script.lost_report_rate, "lost"):
            raise ServerUnreachable(self._url, ConnectionError("the reports were lost"))
        if self._happens(script.replayed_report_rate, "replayed") and self._past:
            past = self._random.sample(list(self._past), min(REPLAYED, len(self._past)))
            super().report(incarnation, past)
        if self._happens(script.reordered_report_rate, "reordered"):
            outcomes = self._backwards(incarnation, reports)
        else:
            outcomes = super().report(incarnation, reports)
        self._past.extend(reports)
        if self._happens(script.repeated_report_rate, "repeated"):
            super().report(incarnation, reports)
        if self._happens(script.unanswered_report_rate, "unanswered"):
            raise ServerUnreachable(self._url, ConnectionError("the answer was lost"))
        return outcomes

    def _happens(self, rate: float, kind: str) -> bool:
        if not rate or self._random.random() >= rate:
            return False
        self._on_trouble(kind)
        return True

    def _backwards(self, incarnation: int, reports: Sequence[Report]) -> list[Outcome]:
        """Send the last report of each session in a first call, and all others in a second."""
        last = {each["session_id"]: each for each in reports}
        first = [each for each in reports if each is not last[each["session_id"]]]
        outcomes = super().report(incarnation, list(last.values()))
        outcomes += super().report(incarnation, first) if first else []
        by_key = {
            (each["session_id"], each["fencing_token"], each["seq"]): each for each in outcomes
        }
        return [by_key[each["session_id"], each["fencing_token"], each["seq"]] for each in reports]
