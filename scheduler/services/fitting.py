"""Whether sessions would fit on any executor of their project, if it were empty, and how much
memory they could have there."""

import json
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, NamedTuple, TypeVar

from django.db import connection

from base.podspec.pod_defaults import completed
from base.podspec.resources import spellings
from scheduler.allocation.waiting_lines import ask_of, placing_text
from scheduler.core.below import Below, below_of
from scheduler.core.fit import Ask, Misfit, Room
from scheduler.core.fit_words import MOST_NAMED, field_of, fits_nowhere, listed
from sessions_app.db.bulk import array, json_text
from sessions_app.selectors.fitting import Asked, Unfit

_MOST_ROOMS, _MOST_MISFITS = 64, 20_000
_MEMORY = "memory"
_MOST_TOGETHER = 16
"""Most pods of one session for which a part of a node's memory is tried."""
Found = TypeVar("Found")
NOBODY = "no executor serves its project: it waits until one does"


class _Site(NamedTuple):
    """An executor: its empty nodes, with those that its cluster can add; their digest; and the only
    projects that it serves."""

    name: str
    room: Room
    digest: str
    projects: Collection[int]
    """Empty for all projects."""
    called: bool
    """Whether it has ever told its nodes."""
    below: Below

    def ask(self, asked: Asked) -> Ask:
        """Return what a session asks for here."""
        ask = ask_of(asked.resources, asked.pods, asked.pod_spec)
        return self.below.ask(ask, placing_text(asked.pod_spec))


_rooms: dict[str, Room] = {}
"""Empty nodes by their digest, which determines them."""
_misfits: dict[tuple[str, str], Misfit | None] = {}
"""Why something would not fit on empty nodes, by their digest and what is asked for."""
_mosts: dict[tuple[Any, ...], Decimal | None] = {}
"""The most memory on empty nodes, by their digest and what else is asked for."""

# An executor that is silent may come back. One that never called has no nodes yet.
_SITES = """
    SELECT e.name, e.nodes_digest,
        ARRAY(SELECT p.project_id FROM scheduler_executor_projects p WHERE p.executor_id = e.id),
        CASE WHEN e.nodes_digest = ANY(%s::text[]) THEN NULL ELSE e.nodes::text END,
        e.node_templates::text, e.last_seen_at IS NOT NULL, e.pod_placing::text,
        e.extended_tolerations,
        (SELECT json_object_agg(d.project_id, d.pod_defaults)
            FROM sessions_app_retrysettings d
            WHERE d.project_id = ANY(%s::bigint[]) AND d.pod_defaults IS NOT NULL)::text
    FROM scheduler_executor e ORDER BY e.name
"""


def unfits(asked: Sequence[Asked]) -> list[Unfit | None]:
    """Return for each session why no executor of its project could run it; None if one could.

    Executors are read in one query, and their nodes only if this process does not know them yet.
    """
    return _of_each(asked, _unfit)


def most_memory(asked: Sequence[Asked]) -> list[Decimal | None]:
    """Return for each session the most memory in bytes that each of its pods could have.

    None: nobody knows. It takes one query, as `unfits`.
    """
    return _of_each(asked, _most_memory)


def _of_each(
    asked: Sequence[Asked], find: Callable[[Asked, Sequence[_Site]], Found]
) -> list[Found]:
    """Return what is found for each session on the executors of its project."""
    sites, defaults = _sites({each.project_id for each in asked})
    found: dict[tuple[int, str], Found] = {}
    asked = [_completed(each, defaults) for each in asked]
    for each in asked:
        key = each.project_id, _text(each)
        if key not in found:
            serving = [s for s in sites if not s.projects or each.project_id in s.projects]
            found[key] = find(each, serving)
    return [found[each.project_id, _text(each)] for each in asked]


def _text(asked: Asked) -> str:
    return json_text([asked.resources, asked.pods, asked.pod_spec])


def _unfit(asked: Asked, sites: Sequence[_Site]) -> Unfit | None:
    if not sites:
        return Unfit("", NOBODY)
    called = [site for site in sites if site.called]
    if not called:
        names = listed([site.name for site in sites[:MOST_NAMED]], len(sites))
        return Unfit("", f"no executor of its project has called yet: {names}")
    named = []
    for site in called:
        misfit = _misfit(asked, site)
        if misfit is None:
            return None
        named.append((site.name, misfit))
    text, strongest = fits_nowhere(named, spellings(asked.resources))
    return Unfit(field_of(strongest), text)


def _most_memory(asked: Asked, sites: Sequence[_Site]) -> Decimal | None:
    return max(filter(None, (_most_at(site.ask(asked), site) for site in sites)), default=None)


def _most_at(ask: Ask, site: _Site) -> Decimal | None:
    ask = replace(ask, amounts={k: v for k, v in ask.amounts.items() if k != _MEMORY})
    if not site.digest:
        return _most_here(ask, site.room)
    key = site.digest, frozenset(ask.amounts.items()), ask.pods, ask.rules
    if key not in _mosts:
        if len(_mosts) >= _MOST_MISFITS:
            _mosts.clear()
        _mosts[key] = _most_here(ask, site.room)
    return _mosts[key]


def _most_here(ask: Ask, room: Room) -> Decimal | None:
    """Return the most memory of a pod with which a session still fits on empty nodes.

    The `ask` itself has none.
    """
    parts = range(1, min(ask.pods, _MOST_TOGETHER) + 1)
    tried = sorted({size / part for size in room.sizes(_MEMORY) for part in parts})

    def too_much(memory: Decimal) -> bool:
        return room.never(replace(ask, amounts={**ask.amounts, _MEMORY: memory})) is not None

    # Whatever fits with much fits with less.
    number = bisect_left(tried, True, key=too_much)
    return tried[number - 1] if number else None


def _misfit(asked: Asked, site: _Site) -> Misfit | None:
    key = site.digest, _text(asked)
    if site.digest and key in _misfits:
        return _misfits[key]
    misfit = site.room.explained(site.ask(asked))
    if site.digest:
        if len(_misfits) >= _MOST_MISFITS:
            _misfits.clear()
        _misfits[key] = misfit
    return misfit


def _room(nodes: str, templates: str) -> Room:
    return Room(json.loads(nodes), (), json.loads(templates))


def _completed(asked: Asked, defaults: Mapping[str, Any]) -> Asked:
    """Return what a session asks for with the pod defaults of its project."""
    below = defaults.get(str(asked.project_id))
    if below is None:
        return asked
    return asked._replace(pod_spec=completed(asked.pod_spec or {}, below))


def _sites(projects: Collection[int]) -> tuple[list[_Site], dict[str, Any]]:
    """Return the executors, by name, and the pod defaults of these projects, by their ids."""
    if len(_rooms) > _MOST_ROOMS:
        _rooms.clear()
    known = dict(_rooms)
    with connection.cursor() as cursor:
        cursor.execute(_SITES, [array(known), array(projects)])
        rows = cursor.fetchall()
    sites = []
    for name, digest, served, nodes, templates, called, placing, tolerations, _ in rows:
        room = known[digest] if nodes is None else _room(nodes, templates)
        if digest:
            _rooms[digest] = room
        below = below_of(json.loads(placing), tolerations=tolerations)
        sites.append(_Site(name, room, digest, served, called, below))
    return sites, json.loads(rows[0][-1] or "{}") if rows else {}
