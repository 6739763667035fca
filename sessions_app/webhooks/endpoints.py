"""Creates, changes, pauses and redelivers webhooks."""

import base64
import secrets
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction

from sessions_app.core.errors import Conflict, InvalidInput, NotFound, TooLarge
from sessions_app.eventlog.places import position_here
from sessions_app.locks import database_now, lock_webhooks, lock_webhooks_of
from sessions_app.locks.resources import lock_webhook
from sessions_app.models import Project, WebhookDelivery, WebhookEndpoint
from sessions_app.models.webhooks import MAX_URL, DeliveryState, Position
from sessions_app.services.secrets.stored import WEBHOOK_SECRET, secret_stored
from sessions_app.services.write.records import record_delete, record_save
from sessions_app.wakeups import webhooks_after_commit
from sessions_app.webhooks.reader import position_shared
from sessions_app.webhooks.rules import PING, known_types
from sessions_app.webhooks.url_guard import Refused

MOST_OF_PROJECT = 50
MOST_REDELIVERED = 100_000
"""Maximum number of deliveries that one call sends again."""
_POSITION = ("epoch", "xid", "event_id")

# The last delivery of each event counts: an event that was delivered since does not count as
# failed.
_REDELIVER = """
    WITH last AS (
        SELECT DISTINCT ON (event_id) id, event_id, session_id, type, state
        FROM sessions_app_webhookdelivery
        WHERE endpoint_id = %(endpoint)s AND event_id IS NOT NULL
            AND (id = %(delivery)s OR created_at >= %(since)s)
        ORDER BY event_id, id DESC),
    chosen AS MATERIALIZED (SELECT * FROM last WHERE state = ANY(%(states)s)),
    made AS (
        INSERT INTO sessions_app_webhookdelivery
            (endpoint_id, event_id, session_id, type, state, attempts, due_at, redelivery,
             created_at, response_excerpt, error)
        SELECT %(endpoint)s, event_id, session_id, type, 'waiting', 0, CASE WHEN
                row_number() OVER (PARTITION BY session_id ORDER BY id) = 1
                AND NOT EXISTS (SELECT FROM sessions_app_webhookdelivery d
                    WHERE d.endpoint_id = %(endpoint)s AND d.session_id = c.session_id
                        AND d.state = 'waiting')
            THEN %(now)s::timestamptz END, true, %(now)s, '', ''
        FROM chosen c WHERE (SELECT count(*) FROM chosen) <= %(most)s
        ORDER BY id RETURNING id)
    SELECT count(*) FROM chosen
"""


def secret_make() -> str:
    """Return a new secret in the form of Standard Webhooks: 256 random bits."""
    return WEBHOOK_SECRET + base64.b64encode(secrets.token_bytes(32)).decode()


def webhook_check(url: str, event_types: Sequence[str]) -> str:
    """Return the host of a URL. Raises `InvalidInput` for a URL or types that are not allowed."""
    errors: dict[str, list[str]] = {}
    host = ""
    try:
        host = settings.WEBHOOK_GUARD.check_url(url)
        if len(url) > MAX_URL:
            raise Refused(f"is longer than {MAX_URL} characters")
    except Refused as refused:
        errors["url"] = [str(refused)]
    if unknown := [each for each in event_types if not known_types(each)]:
        errors["event_types"] = [f"there are no events of the type {each}" for each in unknown]
    if errors:
        raise InvalidInput(errors)
    return host


def webhook_create(
    *, project: Project, url: str, event_types: Sequence[str], description: str, by: str
) -> WebhookEndpoint:
    """Create a webhook that gets events from now on.

    Its `new_secret` is to be shown once. Raises `InvalidInput`, and `Conflict` if the project has
    `MOST_OF_PROJECT` webhooks.
    """
    host = webhook_check(url, event_types)
    made = WebhookEndpoint(
        project=project,
        url=url,
        host=host,
        description=description,
        event_types=sorted(set(event_types)),
        created_by=by,
    )
    _give_secret(made)
    with transaction.atomic():
        lock_webhooks_of(project.pk)
        if WebhookEndpoint.objects.filter(project=project).count() >= MOST_OF_PROJECT:
            raise Conflict(
                f"project {project.address} has {MOST_OF_PROJECT} webhooks, which is the maximum"
            )
        made.epoch, xid, made.event_id = position_here()
        made.xid = str(xid)
        record_save(made, by=by)
        webhooks_after_commit(sure=True)
    return made


def webhook_change(endpoint: WebhookEndpoint, *, by: str, fields: Collection[str]) -> None:
    """Save the changed `url`, `event_types` and `description`. Raises `InvalidInput`.

    Deliveries in the outbox go to the new URL; new types apply from the next read of the log.
    """
    endpoint.host = webhook_check(endpoint.url, endpoint.event_types)
    endpoint.event_types = sorted(set(endpoint.event_types))
    record_save(endpoint, by=by, fields={*fields, "host"})


def webhook_delete(endpoint: WebhookEndpoint, *, by: str) -> None:
    """Delete a webhook with its deliveries; one that is on its way may still arrive."""
    with transaction.atomic():
        lock_webhooks()
        record_delete(endpoint, by=by)


def webhook_new_secret(endpoint: WebhookEndpoint, *, overlap: timedelta, by: str) -> None:
    """Give it a `new_secret`, to be shown once; during `overlap` the old one signs, too."""
    with transaction.atomic():
        _again(endpoint)
        endpoint.previous_secret = endpoint.secret if overlap else ""
        endpoint.previous_secret_until = database_now() + overlap if overlap else None
        _give_secret(endpoint)
        fields = ("secret", "previous_secret", "previous_secret_until")
        record_save(endpoint, by=by, fields=fields, verb="new_secret")


def _give_secret(endpoint: WebhookEndpoint) -> None:
    endpoint.new_secret = secret_make()
    endpoint.secret = secret_stored(endpoint.new_secret)


def webhook_pause(endpoint: WebhookEndpoint, *, reason: str, by: str) -> None:
    """Stop sending, and store the position in the log; a paused webhook stays paused."""
    with transaction.atomic():
        lock_webhooks()
        _again(endpoint)
        if endpoint.paused_at is not None:
            return
        endpoint.paused_at, endpoint.paused_reason = database_now(), reason
        if endpoint.position is None:
            _place(endpoint)
        fields = ("paused_at", "paused_reason", *_POSITION)
        record_save(endpoint, by=by, fields=fields, verb="pause")


def webhook_resume(endpoint: WebhookEndpoint, *, by: str) -> None:
    """Continue from the position where it was paused, at once; does nothing if it is not paused."""
    with transaction.atomic():
        lock_webhooks()
        _again(endpoint)
        if endpoint.paused_at is None:
            return
        endpoint.paused_at, endpoint.paused_reason = None, ""
        endpoint.failures, endpoint.failing_since = 0, None
        fields = ("paused_at", "paused_reason", "failures", "failing_since")
        record_save(endpoint, by=by, fields=fields, verb="resume")
        waiting = WebhookDelivery.objects.filter(endpoint=endpoint, claim=None)
        now = database_now()
        waiting.filter(due_at__gt=now).update(due_at=now)
        webhooks_after_commit(sure=True)


def _again(endpoint: WebhookEndpoint) -> None:
    """Lock the webhook and reload its columns. Raises `NotFound`."""
    stored = lock_webhook(endpoint.pk)
    if stored is None:
        raise NotFound(f"no webhook {endpoint.pk}")
    for field in WebhookEndpoint._meta.concrete_fields:
        setattr(endpoint, field.attname, getattr(stored, field.attname))


def _place(position: Position) -> None:
    position.epoch, xid, position.event_id = position_shared()
    position.xid = str(xid)


def webhook_ping(endpoint: WebhookEndpoint) -> WebhookDelivery:
    """Send a test message as soon as possible, once, also to a paused webhook."""
    with transaction.atomic():
        made = WebhookDelivery.objects.create(endpoint=endpoint, type=PING, due_at=database_now())
        webhooks_after_commit(sure=True)
    return made


def webhook_redeliver(
    endpoint: WebhookEndpoint,
    *,
    delivery: int | None = None,
    since: datetime | None = None,
    states: Collection[DeliveryState] = (DeliveryState.FAILED,),
) -> int:
    """Send again one delivery, or those since a time with a wanted last state.

    Return the number. They queue behind the waiting deliveries of their sessions. Raises `NotFound`
    for a delivery of another webhook, `Conflict` for one that cannot be sent again, `TooLarge`.
    """
    with transaction.atomic():
        lock_webhooks()
        if delivery is not None:
            _require_ended(endpoint, delivery)
            states = (DeliveryState.DELIVERED, DeliveryState.FAILED)
        wanted: dict[str, Any] = {
            "endpoint": endpoint.pk,
            "delivery": delivery,
            "since": since,
            "states": [state.value for state in states],
            "most": MOST_REDELIVERED,
            "now": database_now(),
        }
        with connection.cursor() as cursor:
            cursor.execute(_REDELIVER, wanted)
            (chosen,) = cursor.fetchone()
        webhooks_after_commit(sure=True)
    if chosen > MOST_REDELIVERED:
        raise TooLarge(
            f"{chosen} deliveries match, and one call sends at most "
            f"{MOST_REDELIVERED}: give a later time"
        )
    return int(chosen)


def _require_ended(endpoint: WebhookEndpoint, delivery: int) -> None:
    found = WebhookDelivery.objects.filter(endpoint=endpoint, pk=delivery).first()
    if found is None:
        raise NotFound(f"no delivery {delivery} of this webhook")
    if found.event_id is None:
        raise Conflict(
            "a ping cannot be redelivered: send a new one"
            if found.data is None
            else "only events of sessions can be redelivered"
        )
    if found.state == DeliveryState.WAITING:
        raise Conflict("the delivery is still waiting")


def deliveries_forget(before: datetime, limit: int) -> int:
    """Delete at most `limit` deliveries that ended before a time. Return their number."""
    old = WebhookDelivery.objects.filter(finished_at__lt=before).order_by("finished_at")
    deleted, _ = WebhookDelivery.objects.filter(pk__in=old.values("pk")[:limit]).delete()
    return deleted
