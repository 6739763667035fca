"""API tokens: created once, shown once, stored as a hash."""

import hashlib
import logging
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.db import DatabaseError, connection, transaction
from django.db.models import Q
from django.utils import timezone

from sessions_app.audit.context import audited
from sessions_app.core.errors import NotFound, NotPermitted
from sessions_app.db.joined_rows import JoinedRows, Part
from sessions_app.locks import CLAIM_USE, lock_token
from sessions_app.models import ApiToken, Domain, Project, RequestBudget

logger = logging.getLogger(__name__)

PREFIX = "rpr_"
PREFIX_LENGTH = 12
USE_RESOLUTION = timedelta(minutes=1)
"""Minimum time between two writes of a token's last use."""


def _digest(secret: str) -> str:
    # A random secret of 256 bits needs no slow hash.
    return hashlib.sha256(secret.encode()).hexdigest()


def token_create(
    *,
    name: str,
    user: User | None = None,
    executor_name: str = "",
    project: Project | None = None,
    read_only: bool = False,
    expires_at: datetime | None = None,
    made_with: ApiToken | None = None,
    by: str = "",
) -> str:
    """Create a token for a user or an executor. Return the secret, which is not stored.

    `by` is the person who asked, for the audit log. `made_with` is the token of the call; raises
    `NotPermitted` if that was revoked meanwhile.
    """
    secret = PREFIX + secrets.token_urlsafe(32)
    with transaction.atomic(), audited(by=by):
        if made_with is not None and not lock_token(made_with.pk):
            raise NotPermitted("the token of this call was revoked")
        ApiToken.objects.create(
            name=name,
            prefix=secret[:PREFIX_LENGTH],
            digest=_digest(secret),
            user=user,
            executor_name=executor_name,
            project=project,
            read_only=read_only,
            expires_at=expires_at,
            made_with=made_with.prefix if made_with else "",
            budget=_budget(made_with, user),
        )
    return secret


def _budget(made_with: ApiToken | None, user: User | None) -> int | None:
    """Return the budget that a new token shares: more own tokens mean no more calls."""
    if made_with is None or user is None or made_with.user_id != user.pk:
        return None
    return made_with.budget_key


def token_made(secret: str) -> ApiToken:
    """Return the token with this secret, with its bearer and its project."""
    return ApiToken.objects.select_related("user", "project__domain").get(digest=_digest(secret))


_FIND = JoinedRows(
    """
    SELECT {columns} FROM sessions_app_apitoken t
    LEFT JOIN auth_user u ON u.id = t.user_id
    LEFT JOIN sessions_app_project p ON p.id = t.project_id
    LEFT JOIN sessions_app_domain d ON d.id = p.domain_id
    WHERE t.digest = %s AND (t.expires_at IS NULL OR t.expires_at > %s)
        AND (u.id IS NULL OR u.is_active)
    """,
    (
        Part(ApiToken, "t"),
        Part(User, "u", "user", without="password"),
        Part(Project, "p", "project"),
        Part(Domain, "d", "project.domain"),
    ),
    memberships="""(
        SELECT json_agg(json_build_array(m.role, m.project_id, m.domain_id, o.domain_id))
        FROM sessions_app_membership m LEFT JOIN sessions_app_project o ON o.id = m.project_id
        WHERE m.user_id = t.user_id)""",
)


def token_find(secret: str) -> ApiToken | None:
    """Return the valid token with this secret and its user's memberships; record its use.

    Returns None if the token is unknown or expired, or if its user is disabled.
    """
    now = timezone.now()
    found: list[ApiToken] = _FIND.read([_digest(secret), now])
    if not found:
        return None
    (token,) = found
    if token.last_used_at is None or now - token.last_used_at > USE_RESOLUTION:
        _record_use(token.pk, now)
    return token


_USED = f"UPDATE sessions_app_apitoken SET last_used_at = %(now)s WHERE id = ({CLAIM_USE})"


def _record_use(token_id: int, now: datetime) -> None:
    """Record the use of a token; a call does not fail if that cannot be written."""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(_USED, {"id": token_id, "now": now})
    except DatabaseError as error:
        logger.warning("cannot record the use of a token: %s", error)


@transaction.atomic
def token_revoke(*, prefix: str, by: str) -> ApiToken:
    """Delete the token that begins with `prefix`. Return it.

    Raises `NotFound` unless exactly one token begins so.
    """
    found = list(ApiToken.objects.select_related("user").filter(prefix=prefix)[:2])
    if len(found) != 1:
        raise NotFound(f"{'several tokens begin' if found else 'no token begins'} with {prefix}")
    _revoke(found, by)
    return found[0]


@transaction.atomic
def token_revoke_made_with(*, prefix: str, by: str) -> list[ApiToken]:
    """Delete a token, those created with it, those created with these, and so on.

    Return them, the first one first. Raises `NotFound` as `token_revoke` does.
    """
    found = [token_revoke(prefix=prefix, by=by)]
    last = [prefix]
    while last:
        made = list(ApiToken.objects.select_related("user").filter(made_with__in=last))
        _revoke(made, by)
        found += made
        last = [token.prefix for token in made]
    return found


@transaction.atomic
def executor_tokens_revoke(executor_name: str, *, by: str) -> None:
    """Delete all tokens of an executor."""
    _revoke(list(ApiToken.objects.filter(executor_name=executor_name)), by)


def _revoke(tokens: Sequence[ApiToken], by: str) -> None:
    with audited(by=by, action="token.revoke"):
        ApiToken.objects.filter(pk__in=[token.pk for token in tokens]).delete()
    keys = {token.budget_key for token in tokens}
    # Tokens that remain share the budget, with what was already spent.
    left = ApiToken.objects.filter(Q(pk__in=keys) | Q(budget__in=keys))
    spent_by_others = {token.budget_key for token in left.only("budget")}
    RequestBudget.objects.filter(pk__in=keys - spent_by_others).delete()
