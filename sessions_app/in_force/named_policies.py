"""The named policies and failure categories that apply now, compiled for matching.

The current revisions are read anew for every decision; their content is compiled once.
"""

import json
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from threading import Lock

from django.db import connection

from retry.policies.categories import FailureCategory
from retry.policies.documents import PolicyDocument
from retry.policies.matching import CompiledCategory, NamedPolicy, compile_category, compile_policy
from sessions_app.db.bulk import columns
from sessions_app.models import RetryPolicyRevision

MAX_COMPILED = 1024
"""Maximum number of revisions that a process keeps compiled."""

Names = Sequence[str]

# An archived policy goes on deciding for the chains that name it.
_CURRENT = """
    SELECT w.project_id, w.name, r.id
    FROM unnest(%s::bigint[], %s::text[]) AS w(project_id, name)
    JOIN sessions_app_project j ON j.id = w.project_id
    JOIN sessions_app_retrypolicy p ON p.name = w.name AND (
        p.project_id = j.id OR p.domain_id = j.domain_id
        OR p.project_id IS NULL AND p.domain_id IS NULL)
    JOIN sessions_app_retrypolicyrevision r ON r.policy_id = p.id AND r.revision = p.revision
"""


def named_policies(wanted: Iterable[tuple[int, Names]]) -> dict[int, dict[str, NamedPolicy]]:
    """Return the policies that sessions name, by project id and name, archived ones included.

    `wanted` are the project and the names of each session. The result has every project, and omits
    names for which the project has no policy in reach. Takes one query, none if nothing is named,
    and another one for revisions that this process has not compiled.
    """
    named = [(project_id, tuple(names)) for project_id, names in wanted]
    found: dict[int, dict[str, NamedPolicy]] = {project_id: {} for project_id, _ in named}
    pairs = sorted({(project_id, name) for project_id, names in named for name in names})
    if not pairs:
        return found
    with connection.cursor() as cursor:
        cursor.execute(_CURRENT, columns(pairs))
        rows = cursor.fetchall()
    compiled = _COMPILED.get({revision_id for _, _, revision_id in rows})
    for project_id, name, revision_id in rows:
        if revision_id in compiled:
            found[project_id][name] = compiled[revision_id]
    return found


class _Compiled:
    """A cache of compiled policies by the id of their revision, which never changes."""

    def __init__(self, size: int):
        self._size = size
        self._kept: OrderedDict[int, NamedPolicy] = OrderedDict()
        self._lock = Lock()

    def get(self, revision_ids: Iterable[int]) -> dict[int, NamedPolicy]:
        """Return the compiled policies of these revisions that exist."""
        wanted = set(revision_ids)
        with self._lock:
            found = {each: self._kept[each] for each in wanted & self._kept.keys()}
            for each in found:
                self._kept.move_to_end(each)
        return found | self._read(wanted - found.keys())

    def _read(self, revision_ids: set[int]) -> dict[int, NamedPolicy]:
        if not revision_ids:
            return {}
        rows = RetryPolicyRevision.objects.filter(pk__in=revision_ids)
        made = {
            row.pk: compile_policy(
                PolicyDocument.model_validate(row.document), revision=row.revision
            )
            for row in rows
        }
        with self._lock:
            self._kept.update(made)
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)
        return made


_COMPILED = _Compiled(MAX_COMPILED)


def applied(found: Mapping[str, NamedPolicy], names: Names) -> tuple[NamedPolicy, ...]:
    """Return the policies with these names, in their order."""
    return tuple(found[name] for name in names if name in found)


CATEGORIES = """
    SELECT json_agg(json_build_object('name', name, 'matchers', matchers)
        ORDER BY position, name)::text FROM sessions_app_failurecategory
"""
"""SQL of one value for `compiled_categories`."""


def failure_categories() -> tuple[CompiledCategory, ...]:
    """Return the failure categories in the order in which they are tried, in one query."""
    with connection.cursor() as cursor:
        cursor.execute(CATEGORIES)
        row: tuple[str | None] = cursor.fetchone()
    return compiled_categories(row[0])


@lru_cache(maxsize=8)
def compiled_categories(text: str | None) -> tuple[CompiledCategory, ...]:
    """Return the categories in the value of `CATEGORIES`, compiled for matching."""
    rows = json.loads(text) if text else []
    return tuple(compile_category(FailureCategory.model_validate(row)) for row in rows)
