"""Failure categories: operators' names for kinds of failures, in the order they are tried."""

from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Max

from retry.policies.categories import FailureCategory as CategoryDocument
from sessions_app.audit.context import audited
from sessions_app.core.errors import Conflict, NotFound
from sessions_app.core.versions import Expected, version_of
from sessions_app.locks import database_now
from sessions_app.locks.resources import lock_category
from sessions_app.models import FailureCategory


def category_create(
    document: CategoryDocument, *, position: int | None, by: str
) -> FailureCategory:
    """Create a category, by default after all others. Raises `Conflict` if the name is taken."""
    now = database_now()
    row = FailureCategory(
        name=document.name,
        position=_last() if position is None else position,
        matchers=_matchers(document),
        created_at=now,
        updated_at=now,
    )
    try:
        with audited(by=by), transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError:
        raise Conflict(
            f"there is a failure category {row.name!r} already", errors={"name": ["is taken"]}
        ) from None
    return row


def _last() -> int:
    last = FailureCategory.objects.aggregate(last=Max("position"))["last"]
    return 0 if last is None else last + 1


def category_change(
    name: str,
    *,
    document: CategoryDocument | None = None,
    position: int | None = None,
    by: str,
    expected: Expected | None = None,
) -> FailureCategory:
    """Change parts of a category. Raises `NotFound`, `Outdated` if it is not `expected`."""
    with audited(by=by), transaction.atomic():
        row = _locked(name, expected)
        before = _facts(row)
        if document is not None:
            row.matchers = _matchers(document)
        row.position = row.position if position is None else position
        if before != _facts(row):
            row.updated_at = database_now()
            row.save()
    return row


def category_delete(name: str, *, by: str, expected: Expected | None = None) -> None:
    """Delete a category; rules that name it no longer match.

    Raises as `category_change` does.
    """
    with audited(by=by), transaction.atomic():
        _locked(name, expected).delete()


def category_version(row: FailureCategory) -> str:
    """Return the version of what was last written."""
    return version_of(row.pk, row.updated_at)


def _locked(name: str, expected: Expected | None) -> FailureCategory:
    row = lock_category(name)
    if expected is not None:
        expected.check(category_version(row) if row else None)
    if row is None:
        raise NotFound(f"no failure category {name}")
    return row


def _matchers(document: CategoryDocument) -> list[Any]:
    matchers: list[Any] = document.document()["matchers"]
    return matchers


def _facts(row: FailureCategory) -> dict[str, Any]:
    return {"position": row.position, "matchers": row.matchers}
