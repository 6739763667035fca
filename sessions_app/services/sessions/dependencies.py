"""Dependencies of new chains: what they name is found, and kept from ending until they are there.

A dependency names a session by its id or its `creation_id`, also one of the same call. What has
ended already is seen here; the rest is left to `services/chains/dependants.py`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from uuid import UUID

from django.db import connection

from sessions_app.core.dependencies import (
    OUTCOMES,
    Parent,
    in_circles,
    parent_logged,
    refused_with,
)
from sessions_app.core.errors import InvalidInput
from sessions_app.core.states import RetryState
from sessions_app.db.bulk import SentRows, array
from sessions_app.eventlog.archived import archived_named, archived_tips
from sessions_app.locks import share_roots
from sessions_app.services.sessions.new_roots import Found, NewRoot

MOST_SHOWN = 12
"""Most sessions of a circle that a refusal names."""


def dependencies_resolve(roots: Sequence[NewRoot]) -> None:
    """Find the chains that new roots wait for, and keep them from ending until the commit.

    What names an unknown chain, itself, or what is refused is refused. No statement if there are no
    dependencies; else three, and three more if some are in the log only. A `creation_id` that the
    call itself has is not looked for in the log.
    """
    if not any(root.placed.submission.depends_on for root in roots):
        return
    # Of several roots with one id the first that is not refused becomes the session.
    new: dict[_Name, NewRoot] = {}
    for root in sorted(roots, key=lambda each: each.refusal is not None):
        if root.placed.submission.creation_id is not None:
            new.setdefault((root.project_id, root.creation_id), root)
    parents = _parents({name for root in roots for name in _names(root)}, new)
    _refuse_circles(roots, new, parents)
    for root in roots:
        if root.refusal is None and root.placed.submission.depends_on:
            _resolve(root, new, parents)
    refuse_dependants(roots)


def refuse_dependants(roots: Sequence[NewRoot]) -> None:
    """Refuse the roots that depend on refused ones of the same call, also through others."""
    ours = {root.id: root for root in roots}
    graph = {root.id: [each.id for each in inside(root, ours)] for root in roots}
    refused = [root.id for root in roots if root.refusal is not None]
    for root_id, on in refused_with(graph, refused).items():
        text = f"{ours[on].placed.submission.creation_id!r} is refused"
        ours[root_id].refusal = InvalidInput({"depends_on": [text]})


def inside(root: NewRoot, ours: Mapping[UUID, NewRoot]) -> list[NewRoot]:
    """Return which roots of the same call a root waits for."""
    parents = (each.parent.root_id for each in root.depends_on)
    return [ours[parent] for parent in parents if parent in ours]


_Name = tuple[int, str]
"""A project, and an id or a `creation_id` in it."""


def _names(root: NewRoot) -> list[_Name]:
    return [(root.project_id, wanted.session) for wanted in root.placed.submission.depends_on]


def _refuse_circles(
    roots: Sequence[NewRoot], new: Mapping[_Name, NewRoot], parents: Collection[_Name]
) -> None:
    graph = {name: _names(root) for name, root in new.items() if name not in parents}
    circles = in_circles(graph)
    for root in roots:
        circle = circles.get((root.project_id, root.creation_id))
        if circle is not None and root.refusal is None:
            names = [name for _, name in circle]
            text = " -> ".join(names[:MOST_SHOWN] + ["..."] * (len(names) > MOST_SHOWN))
            itself = "" if root.creation_id in names else "what waits for "
            root.refusal = InvalidInput({"depends_on": [f"waits for {itself}itself: {text}"]})


def _resolve(root: NewRoot, new: Mapping[_Name, NewRoot], parents: Mapping[_Name, Parent]) -> None:
    found: dict[UUID, Found] = {}
    errors: dict[str, list[str]] = {}
    for place, wanted in enumerate(root.placed.submission.depends_on):
        name = root.project_id, wanted.session
        parent, other = parents.get(name), new.get(name)
        problem = ""
        if parent is None and other is None:
            problem = f"no session of this project has the id or creation_id {wanted.session!r}"
        elif parent is not None and other is not None and other.digest != parent.digest:
            problem = f"{wanted.session!r} is refused"
        if parent is None and other is not None:
            parent = Parent(other.id, wanted.session)
        if parent is not None and parent.root_id in found:
            first = found[parent.root_id].place
            problem = f"is of the same chain as depends_on[{first}]"
        if problem or parent is None:
            errors[f"depends_on[{place}].session"] = [problem]
        else:
            found[parent.root_id] = Found(root.id, place, wanted.when, parent)
    if errors:
        root.refusal = InvalidInput(errors)
    else:
        root.depends_on = list(found.values())


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


_FOUND = SentRows[[Found]](
    ("root_id", "uuid", lambda found: found.root_id),
    ("on_root", "uuid", lambda found: found.parent.root_id),
    ("place", "int", lambda found: found.place),
    ("creation_id", "text", lambda found: found.parent.creation_id),
    ("wanted", "text", lambda found: found.when),
    ("outcome", "text", lambda found: found.parent.outcome),
    ("met", "boolean", lambda found: found.met),
    ("tip_id", "uuid", lambda found: found.parent.tip_id),
    ("status", "text", lambda found: found.parent.status),
    ("exit_code", "int", lambda found: found.parent.exit_code),
)
_INSERT = _FOUND.inserted("sessions_app_dependency")


def dependencies_insert(found: Sequence[Found]) -> None:
    """Store the dependencies of chains that were just inserted, in one statement."""
    if found:
        with connection.cursor() as cursor:
            cursor.execute(_INSERT, _FOUND.arrays(found))


def dependencies_told(found: Sequence[Found]) -> list[dict[str, str]]:
    """Return dependencies for the first event of the chain that has them."""
    return [{"session_id": str(each.parent.root_id), "when": each.when} for each in found]
