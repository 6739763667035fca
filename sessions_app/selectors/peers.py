"""Pages of the children of several records, in a few statements for any number of records."""

from collections.abc import Sequence
from typing import Any, TypeVar
from uuid import UUID

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Model, OuterRef, QuerySet

from sessions_app.authorization import Actor
from sessions_app.eventlog.archived import archived_chain
from sessions_app.eventlog.reading import RETRY_EVENTS
from sessions_app.models import (
    RetryDecision,
    RetryPolicy,
    RetryPolicyRevision,
    Session,
    SessionEvent,
    WebhookDelivery,
    WebhookEndpoint,
)
from sessions_app.selectors.sessions import events_shown, sessions_visible

Row = TypeVar("Row", bound=Model)
Key = TypeVar("Key")


def first_of_each(
    parents: QuerySet[Any], children: QuerySet[Row], limit: int
) -> dict[Any, list[Row]]:
    """Return the first `limit` children of each parent in their order, by the parent's key.

    `children` filters by `OuterRef("pk")`, so that each parent costs one index lookup.
    """
    keys = ArraySubquery(children.values("pk")[:limit])
    found = dict(parents.annotate(keys_of_children=keys).values_list("pk", "keys_of_children"))
    wanted = [key for listed in found.values() for key in listed]
    by_key = {row.pk: row for row in _like(children, wanted)} if wanted else {}
    return {
        parent: [by_key[key] for key in keys if key in by_key] for parent, keys in found.items()
    }


def _like(children: QuerySet[Row], keys: Sequence[Any]) -> QuerySet[Row]:
    """Return the rows with these keys, with the related and deferred columns of another query."""
    rows: QuerySet[Row] = QuerySet(children.model).filter(pk__in=keys)
    rows.query.select_related = children.query.select_related
    rows.query.deferred_loading = children.query.deferred_loading
    return rows


def chains_attempts(
    actor: Actor, sessions: Sequence[Session], behind: int | None, limit: int
) -> list[list[Session]]:
    """Return for each session the attempts of its chain after number `behind`, oldest first, with
    everything that is shown of sessions."""
    roots = {each.root_id for each in sessions if each.archived_chain is None}
    after = -1 if behind is None else behind
    rows = sessions_visible(actor).filter(root=OuterRef("pk"), retry_count__gt=after)
    found: dict[UUID, list[Session]] = {}
    if roots:
        parents = Session.objects.filter(pk__in=roots)
        found = first_of_each(parents, rows.order_by("retry_count"), limit)
    for each in sessions:
        if each.archived_chain is not None and each.root_id not in found:
            chain = archived_chain(each.archived_chain)
            found[each.root_id] = [row for row in chain if row.retry_count > after][:limit]
    return [found.get(each.root_id, []) for each in sessions]


def sessions_events(
    sessions: Sequence[Session], after: int, limit: int
) -> list[list[SessionEvent]]:
    """Return for each session its events after the id `after`, as `session_events` does."""
    found: dict[UUID, list[SessionEvent]] = {}
    quiet = {each.pk for each in sessions if each.retry_policy.get("emit_retry_events") is False}
    for keys in (quiet, {each.pk for each in sessions} - quiet):
        if keys:
            events = SessionEvent.objects.filter(session_id=OuterRef("pk"), pk__gt=after)
            events = events_shown(events, retries=keys is not quiet)
            found |= first_of_each(Session.objects.filter(pk__in=keys), events, limit)
    gone = [each.pk for each in sessions if each.archived_chain is not None]
    if gone:
        # As many events as one chain has.
        events = SessionEvent.objects.filter(session_id__in=gone, pk__gt=after)
        for event in events_shown(events, retries=True):
            if event.session_id not in quiet or not event.type.startswith(RETRY_EVENTS):
                found.setdefault(event.session_id, []).append(event)
    return [found.get(each.pk, [])[:limit] for each in sessions]


def sessions_found(actor: Actor, keys: Sequence[UUID | None]) -> dict[UUID, Session]:
    """Return the sessions with these ids that the actor may see, by id."""
    return sessions_visible(actor).in_bulk(list({key for key in keys if key is not None}))


def decisions_found(sessions: Sequence[Session]) -> list[RetryDecision | None]:
    """Return the whole decision about each session, with its trace; None where there is none."""
    wanted = [each.pk for each in sessions if each.archived_chain is None]
    rows = RetryDecision.objects.select_related("written_trace")
    found = rows.in_bulk(wanted) if wanted else {}
    return [
        found.get(each.pk) if each.archived_chain is None else getattr(each, "decision", None)
        for each in sessions
    ]


def policies_revisions(
    policies: Sequence[RetryPolicy], before: int | None, limit: int
) -> list[list[RetryPolicyRevision]]:
    """Return for each policy its revisions before a number, newest first."""
    rows = RetryPolicyRevision.objects.filter(policy=OuterRef("pk")).order_by("-revision")
    if before is not None:
        rows = rows.filter(revision__lt=before)
    parents = RetryPolicy.objects.filter(pk__in=[each.pk for each in policies])
    found = first_of_each(parents, rows, limit)
    return [found.get(each.pk, []) for each in policies]


def webhooks_deliveries(
    webhooks: Sequence[WebhookEndpoint], before: int | None, limit: int, **conditions: Any
) -> list[list[WebhookDelivery]]:
    """Return for each webhook its deliveries before a number, newest first."""
    rows = WebhookDelivery.objects.filter(endpoint=OuterRef("pk"), **conditions).order_by("-pk")
    if before is not None:
        rows = rows.filter(pk__lt=before)
    parents = WebhookEndpoint.objects.filter(pk__in=[each.pk for each in webhooks])
    found = first_of_each(parents, rows, limit)
    return [found.get(each.pk, []) for each in webhooks]
