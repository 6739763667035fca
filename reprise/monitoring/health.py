"""Liveness and readiness: the state of each part, answered within two seconds in any case."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, JsonResponse

from reprise.celery import app
from reprise.monitoring import disk
from reprise.postgresql.direct import brief
from reprise.postgresql.tables import missing_in
from reprise.worker.broker import in_memory
from reprise.worker.heartbeats import DEAD_SECONDS

logger = logging.getLogger(__name__)

ANSWER_SECONDS = 1.5
"""Seconds after which a part that has not answered a probe counts as dead."""
FRESH_SECONDS = 2.0
"""Seconds for which an answer is reused, so that frequent questions do not load the parts."""
BROKER_SECONDS = 1.0

_HEARTBEATS = """
    SELECT part, extract(epoch FROM clock_timestamp() - max(seen_at))::float8, max(doing)
    FROM reprise_heartbeat WHERE part IN ('worker', 'beat') GROUP BY part
"""


@dataclass(frozen=True, slots=True)
class Part:
    """The state of one part that Reprise needs."""

    state: str
    """`alive`, `dead`, or `unknown` if it could not be checked."""
    age_s: float | None = None
    """Seconds since its last heartbeat."""
    detail: str = ""

    @property
    def alive(self) -> bool:
        """Return whether the part is alive."""
        return self.state == "alive"

    def to_json(self) -> dict[str, Any]:
        """Return the part as it is in the answer of `/readyz`."""
        found: dict[str, Any] = {"state": self.state}
        if self.age_s is not None:
            found["age_s"] = round(self.age_s, 1)
        return found | ({"detail": self.detail} if self.detail else {})


Parts = dict[str, Part]


class Probe:
    """Runs one check at a time in a thread of its own, however many ask and however long it takes.

    `missing` is the result when there is no answer.
    """

    def __init__(self, look: Callable[[], Parts], missing: Parts):
        self._look = look
        self._missing = missing
        self._changed = threading.Condition()
        self._running = False
        self._found: Parts = {}
        self._at = float("-inf")

    def start(self, asked: float) -> None:
        """Start a check, unless one runs or the last answer is still fresh."""
        with self._changed:
            if self._running or self._is_fresh(asked):
                return
            self._running = True
            threading.Thread(target=self._run, name="probe", daemon=True).start()

    def answer(self, asked: float) -> Parts:
        """Return the result, recent at `asked` (monotonic) or found in time, else `missing`."""
        with self._changed:
            left = max(0.0, asked + ANSWER_SECONDS - time.monotonic())
            found = self._changed.wait_for(lambda: self._is_fresh(asked), left)
            return self._found if found else self._missing

    def _is_fresh(self, asked: float) -> bool:
        return self._at >= asked - FRESH_SECONDS

    def _run(self) -> None:
        try:
            found = self._look()
        except Exception:  # noqa: BLE001  # whatever it is, the part does not answer
            found = self._missing
        with self._changed:
            self._found, self._at, self._running = found, time.monotonic(), False
            self._changed.notify_all()


def _look_at_database() -> Parts:
    # Not a connection of the pool: calls that wait for the database may hold them all.
    with brief("reprise-probe", ANSWER_SECONDS) as connection:
        if missing := missing_in(connection):
            return {**_NOTHING_KNOWN, "database": Part("dead", detail=missing)}
        found = connection.execute(_HEARTBEATS).fetchall()
    heartbeats = {part: (age, doing) for part, age, doing in found}
    return {
        "database": Part("alive"),
        "worker": _by_age(*heartbeats.get("worker", (None, ""))),
        "beat": _by_age(*heartbeats.get("beat", (None, ""))),
    }


def _by_age(age: float | None, doing: str) -> Part:
    if age is None:
        return Part("dead", detail="none has been heard of")
    return Part("alive", age, doing) if age < DEAD_SECONDS else Part("dead", age)


def _look_at_broker() -> Parts:
    if not in_memory(str(app.conf.broker_url)):
        with app.connection_for_write(connect_timeout=BROKER_SECONDS) as broker:
            broker.connect()
    return {"broker": Part("alive")}


_DEAD = Part("dead", detail="does not answer")
_UNKNOWN = Part("unknown", detail="the database does not answer")
_NOTHING_KNOWN = {"database": _DEAD, "worker": _UNKNOWN, "beat": _UNKNOWN}
_probes = (
    Probe(_look_at_database, _NOTHING_KNOWN),
    Probe(_look_at_broker, {"broker": _DEAD}),
)


_log_lock = threading.Lock()
_last_logged: dict[str, str] = {}


def parts() -> Parts:
    """Return the state of every part that Reprise needs, by name."""
    asked = time.monotonic()
    disk.watch.start("web")  # a server that is none of ours has not started it
    for probe in _probes:
        probe.start(asked)
    found: Parts = {}
    for probe in _probes:
        found |= probe.answer(asked)
    found["disk"] = _disk_part(disk.watch.refused(asked + ANSWER_SECONDS))
    if found["disk"].state == "dead":
        found |= {name: _never_seen(found[name]) for name in ("worker", "beat")}
    return {name: found[name] for name in ("database", "disk", "broker", "worker", "beat")}


def broker_now() -> Part:
    """Return the state of the broker alone, as recent as in `parts`."""
    asked = time.monotonic()
    _probes[1].start(asked)
    return _probes[1].answer(asked)["broker"]


def disk_now() -> Part:
    """Return what the last try to write found, without waiting for one."""
    return _disk_part(disk.watch.refused(time.monotonic()))


def _disk_part(refused: str | None) -> Part:
    if refused is None:
        return Part("unknown", detail="the database does not say whether it can write")
    if refused:
        return Part("dead", detail=f"the database cannot write: {refused}")
    return Part("alive")


def _never_seen(part: Part) -> Part:
    """Return `unknown` for a dead part: perhaps it only cannot write its heartbeat."""
    if part.state != "dead":
        return part
    return Part("unknown", part.age_s, "the database cannot write its heartbeat")


def healthz(request: HttpRequest) -> JsonResponse:  # noqa: ARG001  # Django's signature
    """Answer 200: the process is alive."""
    return JsonResponse({"status": "ok"})


def readyz(request: HttpRequest) -> JsonResponse:
    """Answer 200 if every part is alive, else 503; `?exclude=worker` shows a part but ignores it.

    A load balancer excludes all but the database: a web process without a broker is still good, and
    so is one whose database can only be read.
    """
    found = parts()
    excluded = {
        name for given in request.GET.getlist("exclude") for name in given.replace(",", " ").split()
    }
    ready = all(part.alive for name, part in found.items() if name not in excluded)
    _log_missing(found)
    response = JsonResponse(
        {
            "status": "ok" if ready else "unavailable",
            **{name: part.to_json() for name, part in found.items()},
        },
        status=200 if ready else 503,
        headers={"Cache-Control": "no-store"},
    )
    # Django would log an error for each 503; `_log_missing` logs it once.
    setattr(response, "_has_been_logged", True)  # noqa: B010  # no stub has it
    return response


def _log_missing(found: Parts) -> None:
    """Log which parts are not alive, whenever this changes."""
    missing = {name: part.state for name, part in found.items() if not part.alive}
    with _log_lock:
        if missing == _last_logged:
            return
        _last_logged.clear()
        _last_logged.update(missing)
    if missing:
        text = ", ".join(f"{name} is {state}" for name, state in missing.items())
        logger.warning("not ready: %s", text)
    else:
        logger.warning("ready: all parts are alive")
