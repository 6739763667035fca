"""Dependencies of new chains: what they name is found, and kept from ending until they are there.

A dependency names a session by its id or its `creation_id`, also one of the same call. What has
ended already is seen here; the rest is left to `services/chains/dependants.py`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from sessions_app.core.dependencies import (
    OUTCOMES,
    Parent,
    Wanted,
    in_circles,
    is_met,
    parent_logged,
    refused_with,
)
from sessions_app.core.errors import InvalidInput
from sessions_app.core.states import RetryState
from sessions_app.db.bulk import array, arrays, inserted, unnested
from sessions_app.eventlog.archived import archived_named, archived_tips
from sessions_app.locks import share_roots

MOST_SHOWN = 12
"""Most sessions of a circle that a refusal names."""


class Item(NamedTuple):
    """A submission of a call: the id of its new root, and the digest of its request."""

    id: UUID
    project_id: int
    creation_id: str | None
    digest: str
    depends_on: tuple[Wanted, ...]
    on_failure: str
    refused: bool


class Found(NamedTuple):
    """A dependency of a new chain, as it is stored."""

    root_id: UUID
    place: int
    when: str
    parent: Parent

    @property
    def met(self) -> bool | None:
        """Return whether it is met; None if nobody knows yet."""
        return is_met(self.when, self.parent.outcome) if self.parent.outcome else None


@dataclass(slots=True)
class Resolved:
    """The dependencies of the submissions of one call, by the ids of their new roots."""

    found: dict[UUID, list[Found]] = field(default_factory=dict)
    refusals: dict[UUID, InvalidInput] = field(default_factory=dict)
    _items: dict[UUID, Item] = field(default_factory=dict)

    @property
    def inside(self) -> dict[UUID, list[UUID]]:
        """Return which new chains wait for other new chains of the call."""
        return {
            root_id: [each.parent.root_id for each in found if each.parent.root_id in self._items]
            for root_id, found in self.found.items()
        }

    def blocked(self, root_id: UUID) -> bool:
        """Return whether the chain has to wait, or will never begin."""
        found = self.found.get(root_id)
        return found is not None and (self.unmet(root_id) or any(d.met is None for d in found))

    def unmet(self, root_id: UUID) -> bool:
        """Return whether the chain is cancelled at once, for what it waits for ended otherwise."""
        found = self.found.get(root_id)
        if found is None or self._items[root_id].on_failure != "cancel":
            return False
        return any(each.met is False for each in found)

    def refuse_with(self, refused: Iterable[UUID]) -> dict[UUID, InvalidInput]:
        """Return the refusals of those that depend on refused ones, also through others."""
        return {
            root_id: InvalidInput({"depends_on": [f"{_named(self._items[on])} is refused"]})
            for root_id, on in refused_with(self.inside, refused).items()
        }


def _named(item: Item) -> str:
    return repr(item.creation_id)


def dependencies_resolve(items: Sequence[Item]) -> Resolved:
    """Find the chains that submissions wait for, and keep them from ending until the commit.

    No statement if there are no dependencies; else three, and three more if some are in the log
    only. A `creation_id` that the call itself has is not looked for in the log.
    """
    if not any(each.depends_on for each in items):
        return Resolved()
    resolved = Resolved(_items={each.id: each for each in items})
    # Of several items with one id the first that is not refused becomes the session.
    new: dict[tuple[int, str], Item] = {}
    for each in sorted(items, key=lambda item: item.refused):
        if each.creation_id is not None:
            new.setdefault((each.project_id, each.creation_id), each)
    names = {(i.project_id, name.session) for i in items for name in i.depends_on}
    parents = _parents(names, new)
    _refuse_circles(items, new, parents, resolved)
    for each in items:
        if each.depends_on and not each.refused and each.id not in resolved.refusals:
            _resolve(each, new, parents, resolved)
    resolved.refusals |= resolved.refuse_with(
        {each.id for each in items if each.refused} | resolved.refusals.keys()
    )
    return resolved


_Names = Mapping[tuple[int, str], Any]


def _refuse_circles(
    items: Sequence[Item], new: Mapping[tuple[int, str], Item], parents: _Names, resolved: Resolved
) -> None:
    graph = {
        (item.project_id, name): [(item.project_id, wanted.session) for wanted in item.depends_on]
        for (_, name), item in new.items()
        if (item.project_id, name) not in parents
    }
    circles = in_circles(graph)
    for item in items:
        circle = circles.get((item.project_id, item.creation_id or ""))
        if circle is not None:
            names = [name for _, name in circle]
            text = " -> ".join(names[:MOST_SHOWN] + ["..."] * (len(names) > MOST_SHOWN))
            itself = "" if item.creation_id in names else "what waits for "
            problem = InvalidInput({"depends_on": [f"waits for {itself}itself: {text}"]})
            resolved.refusals[item.id] = problem


def _resolve(
    item: Item,
    new: Mapping[tuple[int, str], Item],
    parents: Mapping[tuple[int, str], Parent],
    resolved: Resolved,
) -> None:
    found: dict[UUID, Found] = {}
    errors: dict[str, list[str]] = {}
    for place, wanted in enumerate(item.depends_on):
        name = item.project_id, wanted.session
        parent, inside = parents.get(name), new.get(name)
        problem = ""
        if parent is None and inside is None:
            problem = f"no session of this project has the id or creation_id {wanted.session!r}"
        elif parent is not None and inside is not None and inside.digest != parent.digest:
            problem = f"{wanted.session!r} is refused"
        parent = parent or (inside and Parent(inside.id, wanted.session))
        if parent is not None and parent.root_id in found:
            first = found[parent.root_id].place
            problem = f"is of the same chain as depends_on[{first}]"
        if problem or parent is None:
            errors[f"depends_on[{place}].session"] = [problem]
        else:
            found[parent.root_id] = Found(item.id, place, wanted.when, parent)
    if errors:
        resolved.refusals[item.id] = InvalidInput(errors)
    else:
        resolved.found[item.id] = list(found.values())


_NAMED = """
    SELECT v.project_id, v.name, s.root_id
    FROM unnest(%(projects)s::bigint[], %(names)s::text[]) AS v(project_id, name)
    JOIN sessions_app_session s ON s.project_id = v.project_id AND s.creation_id = v.name
    UNION ALL
    SELECT v.project_id, v.name, s.root_id
    FROM unnest(%(projects)s::bigint[], %(names)s::text[], %(ids)s::uuid[])
        AS v(project_id, name, id)
    JOIN sessions_app_session s ON s.id = v.id AND s.project_id = v.project_id
"""
_TIPS = """
    SELECT r.id, r.creation_id, c.request_digest, t.retry_state, t.id, t.status, t.exit_code
    FROM sessions_app_session r JOIN sessions_app_sessionspec c ON c.id = r.spec_id
    JOIN sessions_app_session t ON t.root_id = r.id AND t.tip
    WHERE r.id = ANY(%s::uuid[])
"""


def _parents(
    names: Iterable[tuple[int, str]], new: Collection[tuple[int, str]]
) -> dict[tuple[int, str], Parent]:
    """Return the chains with these names, in rows or in the log. Lock those in rows.

    The log is not asked for the `creation_id` of chains that are `new`.
    """
    asked = sorted(names)
    ids = {name: uuid_or_none(name[1]) for name in asked}
    projects, texts = (array(column) for column in zip(*asked, strict=True))
    with connection.cursor() as cursor:
        wanted = {"projects": projects, "names": texts, "ids": array(ids[n] for n in asked)}
        cursor.execute(_NAMED, wanted)
        # What is found by its id comes last, and counts.
        roots = {(project, name): root for project, name, root in cursor.fetchall()}
        there = share_roots(list(set(roots.values()))) if roots else set()
        tips: dict[UUID, Parent] = {}
        if there:
            # Sees what those who held the locks have committed.
            cursor.execute(_TIPS, [array(there)])
            tips = {row[0]: _parent(*row) for row in cursor.fetchall()}
    found = {name: tips[root] for name, root in roots.items() if root in tips}
    left = [name for name in asked if name not in found]
    named = archived_named([name for name in left if name not in new])
    # As above, what is found by its id counts.
    return found | _logged({name: [ids[name], named.get(name)] for name in left})


def _parent(
    root: UUID, creation_id: str, digest: str, state: str, tip: UUID, status: str, code: int | None
) -> Parent:
    outcome = OUTCOMES.get(RetryState(state), "")
    if not outcome:
        return Parent(root, creation_id, digest)
    return Parent(root, creation_id, digest, outcome, tip, status, code)


def _logged(
    ids: Mapping[tuple[int, str], Sequence[UUID | None]],
) -> dict[tuple[int, str], Parent]:
    """Return the chains in the log, by name; of several ids of a name, the first one counts."""
    keys = {key for each in ids.values() for key in each if key is not None}
    tips = archived_tips(keys) if keys else {}
    return {
        name: parent_logged(tip.root_id, tip.session_id, tip.data)
        for name, each in ids.items()
        for key in reversed(each)
        if key is not None and (tip := tips.get(key)) is not None and tip.project_id == name[0]
    }


def uuid_or_none(text: str) -> UUID | None:
    """Return the id that a text spells, if it does."""
    try:
        return UUID(text)
    except ValueError:
        return None


_Source = Callable[[Found], Any]
_TYPES = {
    "root_id": "uuid",
    "on_root": "uuid",
    "place": "int",
    "creation_id": "text",
    "wanted": "text",
    "outcome": "text",
    "met": "boolean",
    "tip_id": "uuid",
    "status": "text",
    "exit_code": "int",
}
_GIVEN: dict[str, _Source] = {
    "root_id": lambda found: found.root_id,
    "on_root": lambda found: found.parent.root_id,
    "place": lambda found: found.place,
    "creation_id": lambda found: found.parent.creation_id,
    "wanted": lambda found: found.when,
    "outcome": lambda found: found.parent.outcome,
    "met": lambda found: found.met,
    "tip_id": lambda found: found.parent.tip_id,
    "status": lambda found: found.parent.status,
    "exit_code": lambda found: found.parent.exit_code,
}
_INSERT = f"""
    {inserted("sessions_app_dependency", {name: f"v.{name}" for name in _TYPES})}
    FROM {unnested(_TYPES)}
"""


def dependencies_insert(found: Sequence[Found]) -> None:
    """Store the dependencies of chains that were just inserted, in one statement."""
    if found:
        with connection.cursor() as cursor:
            cursor.execute(_INSERT, arrays(_GIVEN, found))


def dependencies_told(found: Sequence[Found]) -> list[dict[str, str]]:
    """Return dependencies for the first event of the chain that has them."""
    return [{"session_id": str(each.parent.root_id), "when": each.when} for each in found]
