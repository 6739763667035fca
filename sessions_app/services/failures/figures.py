"""What the ends of a stretch of the log add to the figures of failures."""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from retry.signatures.signature import WITHOUT_EXIT_CODE
from sessions_app.models.failures import OTHER, VALUE_LENGTH, Dimension
from sessions_app.services.failures.reading import Ended

OTHER_TITLE = "failures of too many new kinds at once"


@dataclass(slots=True)
class Added:
    """What is added to figures."""

    sessions: int = 0
    chains: int = 0
    recovered: int = 0
    lost: float = 0.0

    def failure(self, ended: Ended, *, first: bool) -> None:
        """Add a failure; `first` is the first one of its chain here."""
        self.sessions += 1
        self.chains += first
        self.lost += max(ended.run_seconds, 0.0)

    def add(self, other: "Added") -> None:
        """Add other figures."""
        self.sessions += other.sessions
        self.chains += other.chains
        self.recovered += other.recovered
        self.lost += other.lost


@dataclass(slots=True)
class Seen(Added):
    """What is added to a signature, and what was seen of it last."""

    title: str = ""
    cause: str = ""
    exit_code: int | None = None
    first: datetime | None = None
    last: datetime | None = None
    example: UUID | None = None

    def see(self, ended: Ended, *, first: bool) -> None:
        """Take a failure in."""
        self.failure(ended, first=first)
        self.title = ended.title or self.title
        self.cause = ended.cause
        self.exit_code = None if ended.cause in WITHOUT_EXIT_CODE else ended.exit_code
        self.first = min(self.first or ended.time, ended.time)
        if self.last is None or ended.time >= self.last:
            self.last, self.example = ended.time, ended.session_id


class Place(NamedTuple):
    """What a row of an hour is about."""

    project_id: int
    dimension: str
    value: str
    hour: datetime
    key: str


Signatures = dict[tuple[int, str], Seen]


@dataclass(slots=True)
class Figures:
    """What is added, by signature and by hour."""

    signatures: Signatures = field(default_factory=dict)
    hours: dict[Place, Added] = field(default_factory=dict)
    grown: set[int] = field(default_factory=set)
    """The projects that may have more signatures than before."""
    _hours_of: dict[tuple[Hashable, ...], list[Added]] = field(default_factory=dict)
    """The figures of hours to which ends add that have all of this in common."""

    def hours_of(self, ended: Ended, hour: datetime, key: str) -> list[Added]:
        """Return the figures of the hour to which an end adds."""
        at = (ended.project_id, ended.queue, ended.image, ended.node, hour, key)
        if at not in self._hours_of:
            self._hours_of[at] = [
                self.hours.setdefault(place, Added()) for place in _places(ended, hour, key)
            ]
        return self._hours_of[at]


def keys_of(ends: Iterable[Ended]) -> set[tuple[int, str]]:
    """Return the signatures that the ends may count under, by project and key."""
    return {at for ended in ends for at in _keys_of(ended)}


def _keys_of(ended: Ended) -> list[tuple[int, str]]:
    keys = [OTHER, *ended.earlier, *([ended.key] if ended.failed else [])]
    return [(ended.project_id, key) for key in keys]


def figures_of(
    ends: Sequence[Ended],
    known: Mapping[tuple[int, str], datetime | None],
    new_in: Callable[[int, datetime], int],
    most_new: int,
) -> Figures:
    """Return what ends add.

    `known` are the signatures that have a row, with its first time if a rebuild has not come to it
    yet: what failed before that time counted under `OTHER`. `new_in` says how many of a project
    were new in an hour: beyond `most_new` of them, further ones count under `OTHER`. A chain counts
    at its first failure under a key.
    """
    found = Figures()
    taken = {at for at, since in known.items() if since is None}
    later = {at: since for at, since in known.items() if since is not None}
    made: dict[tuple[int, datetime], int] = {}
    for ended in ends:
        hour = hour_of(ended.time)
        if later:
            taken.update(at for at in _keys_of(ended) if at in later and later[at] < ended.time)
        # Before a key that has no row now is taken: what came earlier counted elsewhere.
        before = _counted(ended, taken)
        if not ended.failed:
            _recovered(found, ended, hour, before)
            continue
        key, at = ended.key, (ended.project_id, hour)
        row = (ended.project_id, key)
        if row not in taken and later.get(row) != ended.time:
            made.setdefault(at, new_in(*at))
            if made[at] >= most_new:
                key = OTHER
                ended = ended._replace(title=OTHER_TITLE, exit_code=None)  # noqa: PLW2901  # as it is counted
            else:
                made[at] += 1
            # `OTHER` is a signature, too, and may be a new one.
            found.grown.add(ended.project_id)
        taken.add((ended.project_id, key))
        first = key not in before
        found.signatures.setdefault((ended.project_id, key), Seen()).see(ended, first=first)
        for added in found.hours_of(ended, hour, key):
            added.failure(ended, first=first)
    return found


def _recovered(found: Figures, ended: Ended, hour: datetime, keys: Collection[str]) -> None:
    """Count the recovery of a chain under each of the keys."""
    for key in keys:
        seen = found.signatures.setdefault((ended.project_id, key), Seen())
        for each in (seen, *found.hours_of(ended, hour, key)):
            each.recovered += 1


def _counted(ended: Ended, taken: Collection[tuple[int, str]]) -> set[str]:
    """Return the keys under which earlier failures of the chain count: without a row, `OTHER`."""
    rows = {key if (ended.project_id, key) in taken else OTHER for key in ended.earlier}
    return {key for key in rows if (ended.project_id, key) in taken}


def hour_of(time: datetime) -> datetime:
    """Return the beginning of the hour of a time."""
    return time.replace(minute=0, second=0, microsecond=0)


def _places(ended: Ended, hour: datetime, key: str) -> list[Place]:
    values = {
        Dimension.ALL: "",
        Dimension.QUEUE: ended.queue,
        Dimension.IMAGE: ended.image,
        Dimension.NODE: ended.node,
    }
    return [
        Place(ended.project_id, dimension.value, value[:VALUE_LENGTH], hour, key)
        for dimension, value in values.items()
        if value or dimension is Dimension.ALL
    ]
