"""Named policies: numbered revisions, names unique along a line of scopes, deletion."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from django.db import connection, transaction
from django.db.models import Q

from retry.policies.documents import Metadata, PolicyDocument
from sessions_app.audit.context import audited
from sessions_app.core.errors import Conflict, InvalidInput, NotFound
from sessions_app.core.versions import Expected, version_of
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.in_force.policy_uses import policies_uses
from sessions_app.locks import database_now, lock_policy_name
from sessions_app.locks.resources import lock_policy, lock_policy_to_delete
from sessions_app.models import RetryPolicy, RetryPolicyRevision


@dataclass(frozen=True, slots=True)
class Applied:
    """A policy as it is now; `created` says that it did not exist or was archived before."""

    policy: RetryPolicy
    revision: RetryPolicyRevision
    created: bool
    ignored: tuple[str, ...]
    """Warnings about fields of the document that are not kept."""


def policy_apply(
    document: PolicyDocument,
    scope: ConfigScope,
    *,
    by: str,
    create: bool = False,
    revision: int | None = None,
    expected: Expected | None = None,
) -> Applied:
    """Create a policy of a scope, or a new revision of it if its content changes.

    The document may omit its scope. Raises `Conflict` if the name is taken in a scope above or
    below; with `create`, if the policy exists; with `revision`, if that is not the present one,
    since somebody else has edited the policy. Raises `Outdated` if it is not `expected`, and
    `InvalidInput` if the document names another scope than `scope`.
    """
    document = document_placed(document, scope)
    name = document.metadata.name
    with transaction.atomic():
        lock_policy_name(name)
        own = lock_policy(name, scope.key)
        if expected is not None:
            expected.check(policy_version(own) if own else None)
        if own is None:
            _require_free(name, scope)
            own, before = RetryPolicy(**scope.key, name=name, revision=0), None
        else:
            before = _current(own)
        created = before is None or own.archived_at is not None
        if revision is not None and (before is None or before.revision != revision):
            raise _edited(before, revision)
        if before is not None and not created:
            if create:
                raise _taken(f"{scope.name} has a retry policy {name!r} already")
            if before.document == document.document():
                return Applied(own, before, False, document.ignored)
        return Applied(own, _revise(own, before, document, by), created, document.ignored)


def document_placed(document: PolicyDocument, scope: ConfigScope) -> PolicyDocument:
    """Return the document with its scope filled in. Raises `InvalidInput` if it names another."""
    domain = scope.project.domain if scope.project else scope.domain
    original = document.metadata
    for field, given, meant in (
        ("domain", original.domain, domain and domain.name),
        ("project", original.project, scope.project and scope.project.name),
    ):
        if given is not None and given != meant:
            raise InvalidInput({f"metadata.{field}": [f"must be {meant or 'absent'} here"]})
    metadata = Metadata(
        name=original.name,
        domain=domain.name if domain else None,
        project=scope.project.name if scope.project else None,
    )
    return document.model_copy(update={"metadata": metadata})


def _current(policy: RetryPolicy) -> RetryPolicyRevision:
    return RetryPolicyRevision.objects.get(policy=policy, revision=policy.revision)


def _require_free(name: str, scope: ConfigScope) -> None:
    """Raise `Conflict` if a policy above or below has the name: a chain would see both."""
    in_the_way = Q()
    if scope.project is not None:
        in_the_way = Q(domain=None, project=None) | Q(domain=scope.project.domain)
    elif scope.domain is not None:
        in_the_way = Q(domain=None, project=None) | Q(project__domain=scope.domain)
    others = RetryPolicy.objects.filter(in_the_way, name=name)
    for other in others.select_related("domain", "project__domain").order_by("pk"):
        if other.archived_at is None:
            raise _taken(f"{other.scope} has a retry policy {name!r}, which this one would shadow")
        if _remove(other.pk) is Deleted.ARCHIVED:
            raise _taken(f"an archived policy {name!r} of {other.scope} still decides for chains")


def _edited(now: RetryPolicyRevision | None, revision: int) -> Conflict:
    change = f"{now.created_by} made revision {now.revision}" if now else "it was deleted"
    return Conflict(f"the policy is not at revision {revision} any more: {change}")


def _taken(why: str) -> Conflict:
    return Conflict(why, errors={"metadata.name": ["is taken"]})


def _revise(
    policy: RetryPolicy, before: RetryPolicyRevision | None, document: PolicyDocument, by: str
) -> RetryPolicyRevision:
    action = "" if before and policy.archived_at is None else "retry_policy.create"
    policy.revision += 1
    policy.archived_at = None
    with audited(by=by, action=action):
        policy.save()
        return RetryPolicyRevision.objects.create(
            policy=policy,
            revision=policy.revision,
            document=document.document(),
            created_at=database_now(),
            created_by=by,
        )


class Deleted(StrEnum):
    """The result of a deletion: an archived policy goes on deciding for chains that name it."""

    DELETED = "deleted"
    ARCHIVED = "archived"


def policy_version(policy: RetryPolicy) -> str:
    """Return the version: it identifies the policy, its revision and whether it is archived."""
    return version_of(policy.pk, policy.revision, policy.archived_at is None)


def policy_delete(
    name: str, scope: ConfigScope, *, by: str, expected: Expected | None = None
) -> Deleted:
    """Delete a policy; it is archived while unfinished chains or waiting retries name it.

    Deleting an archived policy tries again. Raises `NotFound`, `Outdated` if it is not `expected`,
    and `Conflict` with the queues that name it, and whether it is the default policy.
    """
    with transaction.atomic():
        policy = lock_policy(name, scope.key)
        if policy is None:
            raise NotFound(f"no retry policy {name}")
        if expected is not None:
            expected.check(policy_version(policy))
        if policy.archived_at is None:
            _require_unused(policy)
            policy.archived_at = database_now()
            with audited(by=by):
                policy.save(update_fields=["archived_at"])
    # Nothing new can name it from here on. The search for chains that do may take long in a large
    # database, so it runs in a transaction of its own, where nobody waits for it.
    with transaction.atomic():
        return _remove(policy.pk)


def _require_unused(policy: RetryPolicy) -> None:
    uses = policies_uses([policy])[policy.pk]
    places = [f"queue {address}" for address in uses.queues]
    if uses.default:
        places.append("the cluster's default_policy")
    if places:
        raise Conflict(
            f"the retry policy {policy.name!r} is named by {len(places)} "
            f"{'place' if len(places) == 1 else 'places'}, detach it first: {', '.join(places)}",
            used_by=uses.to_json(),
        )


def _remove(policy_id: int) -> Deleted:
    """Delete an archived policy unless a chain still needs it."""
    policy = lock_policy_to_delete(policy_id)
    if policy is None:
        return Deleted.DELETED
    if policy.archived_at is None or _decides(policy):
        return Deleted.ARCHIVED
    policy.delete()
    return Deleted.DELETED


# Each of the five has a partial index of such sessions only.
_DECIDES = """
    WITH reach AS (SELECT id FROM sessions_app_project
        WHERE CASE WHEN %(project)s::bigint IS NOT NULL THEN id = %(project)s
            WHEN %(domain)s::bigint IS NOT NULL THEN domain_id = %(domain)s ELSE true END)
    SELECT EXISTS (SELECT FROM sessions_app_session s
            WHERE s.phase = 'waiting' AND s.retry_policies ? %(name)s
                AND s.project_id IN (SELECT id FROM reach))
        OR EXISTS (SELECT FROM sessions_app_session s
            WHERE s.phase = 'blocked' AND s.retry_policies ? %(name)s
                AND s.project_id IN (SELECT id FROM reach))
        OR EXISTS (SELECT FROM sessions_app_session s
            WHERE s.phase = 'live' AND s.retry_policies ? %(name)s
                AND s.project_id IN (SELECT id FROM reach))
        OR EXISTS (SELECT FROM sessions_app_session s
            WHERE s.resting IN ('held', 'parked') AND s.retry_policies ? %(name)s
                AND s.project_id IN (SELECT id FROM reach))
        OR EXISTS (SELECT FROM sessions_app_retrydecision d
            JOIN sessions_app_session s ON s.id = d.session_id
            WHERE d.state = 'scheduled' AND s.retry_policies ? %(name)s
                AND s.project_id IN (SELECT id FROM reach))
"""


def _decides(policy: RetryPolicy) -> bool:
    """Return whether a chain that can still fail names the policy."""
    named = {"name": policy.name, "project": policy.project_id, "domain": policy.domain_id}
    with connection.cursor() as cursor:
        cursor.execute(_DECIDES, named)
        row: tuple[bool] = cursor.fetchone()
    return row[0]


_FORGET_REVISIONS = """
    DELETE FROM sessions_app_retrypolicyrevision WHERE id IN (
        SELECT r.id FROM sessions_app_retrypolicyrevision r
        JOIN sessions_app_retrypolicyrevision n
            ON n.policy_id = r.policy_id AND n.revision = r.revision + 1
        WHERE n.created_at < %s
        ORDER BY r.id LIMIT %s)
"""


def revisions_forget(before: datetime, limit: int) -> int:
    """Delete at most `limit` revisions that were replaced before a time. Return their number."""
    with connection.cursor() as cursor:
        cursor.execute(_FORGET_REVISIONS, [before, limit])
        return int(cursor.rowcount)
