"""The named policies and failure categories that apply now, compiled for matching.

Each decision asks for the current revisions; their content is compiled once.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from django.db import connection

from retry.policies.categories import FailureCategory
from retry.policies.documents import PolicyDocument
from retry.policies.inline import STORED
from retry.policies.matching import CompiledCategory, NamedPolicy, compile_category, compile_policy
from sessions_app.db.bulk import columns
from sessions_app.in_force.kept import VERSION, Kept
from sessions_app.models import RetryPolicyRevision

MAX_COMPILED = 1024
"""Maximum number of revisions that a process keeps compiled."""
MAX_CURRENT = 4096

Names = Sequence[str]

_COMPILED: Kept[int, NamedPolicy] = Kept(MAX_COMPILED)
"""By the id of the revision, which never changes."""
_CURRENT: Kept[tuple[str, int, str], int | None] = Kept(MAX_CURRENT)
"""The ids of current revisions by version of the configuration, project and name; None: no policy
has the name there."""

# An archived policy goes on deciding for the chains that name it.
_READ = f"""
    SELECT {VERSION}, w.project_id, w.name, r.id
    FROM unnest(%s::bigint[], %s::text[]) AS w(project_id, name)
    LEFT JOIN sessions_app_project j ON j.id = w.project_id
    LEFT JOIN sessions_app_retrypolicy p ON p.name = w.name AND (
        p.project_id = j.id OR p.domain_id = j.domain_id
        OR p.project_id IS NULL AND p.domain_id IS NULL)
    LEFT JOIN sessions_app_retrypolicyrevision r
        ON r.policy_id = p.id AND r.revision = p.revision
"""


def named_policies(
    wanted: Iterable[tuple[int, Names]], versions: Mapping[int, str] | None = None
) -> dict[int, dict[str, NamedPolicy]]:
    """Return the policies that sessions name, by project id and name, archived ones included.

    `wanted` are the project and the names of each session. The result has every project, and omits
    names for which the project has no policy in reach. Takes one query, and another one for
    revisions that this process has not compiled; none if nothing is named, or if the process knows
    all names at these `versions` of the configuration, by project.
    """
    named = [(project_id, tuple(names)) for project_id, names in wanted]
    found: dict[int, dict[str, NamedPolicy]] = {project_id: {} for project_id, _ in named}
    pairs = {(project_id, name) for project_id, names in named for name in names}
    if not pairs:
        return found
    current = _current(pairs, versions or {})
    compiled = _compiled({revision for revision in current.values() if revision is not None})
    for (project_id, name), revision in current.items():
        if revision in compiled:
            found[project_id][name] = compiled[revision]
    return found


def _current(
    pairs: Iterable[tuple[int, str]], versions: Mapping[int, str]
) -> dict[tuple[int, str], int | None]:
    """Return the ids of current revisions by project and name."""
    keys = [(versions.get(project_id, ""), project_id, name) for project_id, name in pairs]
    found = {key[1:]: revision for key, revision in _CURRENT.of(keys).items()}
    rest = sorted(key[1:] for key in keys if key[1:] not in found)
    if rest:
        with connection.cursor() as cursor:
            cursor.execute(_READ, columns(rest))
            rows = cursor.fetchall()
        _CURRENT.keep({(v, project, name): r for v, project, name, r in rows if v is not None})
        found |= {(project_id, name): revision for _, project_id, name, revision in rows}
    return found


def _compiled(revisions: set[int]) -> dict[int, NamedPolicy]:
    """Return the compiled policies of these revisions that exist."""
    found = _COMPILED.of(revisions)
    rest = revisions - found.keys()
    if rest:
        made = {
            row.pk: compile_policy(
                PolicyDocument.model_validate(row.document, context=STORED), revision=row.revision
            )
            for row in RetryPolicyRevision.objects.filter(pk__in=rest)
        }
        _COMPILED.keep(made)
        found |= made
    return found


def applied(found: Mapping[str, NamedPolicy], names: Names) -> tuple[NamedPolicy, ...]:
    """Return the policies with these names, in their order."""
    return tuple(found[name] for name in names if name in found)


CATEGORIES = """
    SELECT json_agg(json_build_object('name', name, 'matchers', matchers)
        ORDER BY position, name)::text
    FROM (SELECT * FROM sessions_app_failurecategory ORDER BY id) AS by_index
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
