"""Whether new sessions would fit on any executor of their project, if it were empty."""

import json
from collections.abc import Collection, Sequence
from typing import NamedTuple

from django.db import connection

from podspec.resources import spellings
from scheduler.allocation.waiting_lines import ask_of
from scheduler.core.fit import Misfit, Room
from scheduler.core.fit_words import field_of, fits_nowhere
from sessions_app.db.bulk import array, json_text
from sessions_app.selectors.fitting import Asked, Unfit

_MOST_ROOMS, _MOST_MISFITS = 64, 20_000


class _Site(NamedTuple):
    """An executor: its empty nodes, with those that its cluster can add; their digest; and the only
    projects that it serves."""

    name: str
    room: Room
    digest: str
    projects: Collection[int]
    """Empty for all projects."""


_rooms: dict[str, Room] = {}
"""Empty nodes by their digest, which determines them."""
_misfits: dict[tuple[str, str], Misfit | None] = {}
"""Why something would not fit on empty nodes, by their digest and what is asked for."""

# An executor that is silent may come back. One that never called has no nodes yet.
_SITES = """
    SELECT e.name, e.nodes_digest,
        ARRAY(SELECT p.project_id FROM scheduler_executor_projects p WHERE p.executor_id = e.id),
        CASE WHEN e.nodes_digest = ANY(%s::text[]) THEN NULL ELSE e.nodes::text END,
        e.node_templates::text
    FROM scheduler_executor e WHERE e.last_seen_at IS NOT NULL ORDER BY e.name
"""


def unfits(asked: Sequence[Asked]) -> list[Unfit | None]:
    """Return for each session why no executor of its project could ever run it; None if one could.

    Executors are read in one query, and their nodes only if this process does not know them yet.
    Nothing is said of projects whose executors have never called.
    """
    sites = _sites()
    found: dict[tuple[int, str], Unfit | None] = {}
    for each in asked:
        key = each.project_id, _text(each)
        if key not in found:
            found[key] = _unfit(each, [s for s in sites if not s.projects or key[0] in s.projects])
    return [found[each.project_id, _text(each)] for each in asked]


def _text(asked: Asked) -> str:
    return json_text([asked.resources, asked.pods, asked.pod_spec])


def _unfit(asked: Asked, sites: Sequence[_Site]) -> Unfit | None:
    named = []
    for site in sites:
        misfit = _misfit(asked, site)
        if misfit is None:
            return None
        named.append((site.name, misfit))
    if not named:
        return None
    text, strongest = fits_nowhere(named, spellings(asked.resources))
    return Unfit(field_of(strongest), text)


def _misfit(asked: Asked, site: _Site) -> Misfit | None:
    key = site.digest, _text(asked)
    if site.digest and key in _misfits:
        return _misfits[key]
    misfit = site.room.never(ask_of(asked.resources, asked.pods, asked.pod_spec))
    if site.digest:
        if len(_misfits) >= _MOST_MISFITS:
            _misfits.clear()
        _misfits[key] = misfit
    return misfit


def _room(nodes: str, templates: str) -> Room:
    return Room(json.loads(nodes), (), json.loads(templates))


def _sites() -> list[_Site]:
    """Return the executors that have ever called, by name."""
    if len(_rooms) > _MOST_ROOMS:
        _rooms.clear()
    known = dict(_rooms)
    with connection.cursor() as cursor:
        cursor.execute(_SITES, [array(known)])
        rows = cursor.fetchall()
    sites = []
    for name, digest, projects, nodes, templates in rows:
        room = known[digest] if nodes is None else _room(nodes, templates)
        # A server of the previous version writes no digest.
        if digest:
            _rooms[digest] = room
        sites.append(_Site(name, room, digest, projects))
    return sites
