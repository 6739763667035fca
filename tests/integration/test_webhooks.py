"""Webhooks from the log to a real receiver: what comes, in which order, how often."""

import threading
import time
from collections import Counter, defaultdict
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings as conf
from django.db import connection, transaction
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from standardwebhooks.webhooks import WebhookVerificationError

from reprise.upkeep.retention import prune
from sessions_app.eventlog.event_json import event_json
from sessions_app.locks import database_now
from sessions_app.models import (
    Project,
    SessionEvent,
    WebhookDelivery,
    WebhookEndpoint,
)
from sessions_app.models.webhooks import DeliveryState
from sessions_app.tasks import deliver_webhooks, sweep_webhooks
from sessions_app.webhooks import endpoints, outbox
from sessions_app.webhooks.delivery_run import _record
from sessions_app.webhooks.outbox import Outcome
from sessions_app.webhooks.reader import log_read, log_read_behind
from sessions_app.webhooks.rules import Answer, Result, Verdict
from sessions_app.webhooks.url_guard import Guard
from tests import factories
from tests.agent import Api
from tests.audit import audited_acts
from tests.receiver import Receiver, Says, receiving
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _receivers_of_this_machine(settings: Any) -> None:
    settings.WEBHOOK_GUARD = Guard.of(["127.0.0.0/8"], [], http=True)


def webhook(at: Project, receiver: Receiver, *types: str) -> WebhookEndpoint:
    return endpoints.webhook_create(
        project=at, url=receiver.url, event_types=types, description="", by="root"
    )


def sessions(at: Project, count: int = 1) -> None:
    """Sessions that fail: events of a life, in several transactions."""
    owner = factories.user(superuser=True)
    for _ in range(count):
        factories.settle(factories.start(factories.submit(at, owner=owner)))


def due_now() -> None:
    """Let what waits for its next attempt be due."""
    WebhookDelivery.objects.filter(due_at__isnull=False).update(due_at=database_now())


def states(**of: Any) -> list[tuple[str, int, int | None]]:
    rows = WebhookDelivery.objects.filter(**of).order_by("id")
    return list(rows.values_list("state", "attempts", "response_code"))


def test_a_receiver_gets_each_event_signed_and_in_order(at: Project, receiver: Receiver) -> None:
    sessions(at)  # before there is a webhook
    made = webhook(at, receiver)
    sessions(at, 3)
    sessions(factories.project())  # of others
    logged = SessionEvent.objects.filter(project=at).order_by("id")
    expected = list(logged)[logged.count() // 4 :]
    assert deliver_webhooks() == len(expected) == len(receiver.got)
    by_session = defaultdict(list)
    for got in receiver.got:
        event = got.verified(made.new_secret)
        by_session[event["session_id"]].append(event["seq"])
        with pytest.raises(WebhookVerificationError):
            got.verified(endpoints.secret_make())
    assert len(by_session) == 3
    assert all(each == sorted(each) for each in by_session.values())
    first = next(got for got in receiver.got if got.id == f"evt_{expected[0].pk}")
    assert first.event.keys() == event_json(expected[0]).keys()
    assert {state for state, *_ in states()} == {"delivered"}
    assert deliver_webhooks() == sweep_webhooks() == 0


def test_only_wanted_types_come(at: Project, receiver: Receiver) -> None:
    webhook(at, receiver, "session.submitted", "session.r*")
    sessions(at)
    deliver_webhooks()
    assert [got.event["type"] for got in receiver.got] == ["session.submitted", "session.running"]


def test_a_session_waits_for_its_event_and_others_do_not(at: Project, receiver: Receiver) -> None:
    webhook(at, receiver, "session.submitted", "session.running")
    sessions(at, 2)
    first = SessionEvent.objects.order_by("id").values_list("session_id", flat=True)[0]
    receiver.answer = lambda got: Says(500 if got.event["session_id"] == str(first) else 204)
    deliver_webhooks()
    due_now()
    deliver_webhooks()
    failing = [got.event for got in receiver.got if got.event["session_id"] == str(first)]
    assert [event["type"] for event in failing] == ["session.submitted"] * 2
    assert states(session_id=first) == [("waiting", 2, 500), ("waiting", 0, None)]
    assert {state for state, *_ in states() if state != "waiting"} == {"delivered"}
    WebhookDelivery.objects.filter(attempts=2).update(attempts=7)
    due_now()
    deliver_webhooks()
    # Given up: the next one has its turn, and its own seven.
    assert states(session_id=first) == [("failed", 8, 500), ("waiting", 1, 500)]
    receiver.answer = lambda _: Says()
    due_now()
    deliver_webhooks()
    assert states(session_id=first)[1] == ("delivered", 2, 204)
    assert len({got.id for got in receiver.got if got.event["type"] == "session.submitted"}) == 2


def test_an_event_that_becomes_visible_late_is_told(at: Project, receiver: Receiver) -> None:
    """Ids and transactions are given out before the commit; what is younger waits for the older."""
    webhook(at, receiver, "session.submitted")
    owner = factories.user(superuser=True)
    written, committed = threading.Event(), threading.Event()

    def write() -> None:
        with transaction.atomic():
            factories.submit(at, owner=owner)
            written.set()
            committed.wait(PATIENCE_SECONDS)
        connection.close()

    other = threading.Thread(target=write)
    other.start()
    assert written.wait(PATIENCE_SECONDS)
    factories.submit(at, owner=owner)
    assert log_read().passed == log_read_behind() == 0
    committed.set()
    other.join()
    assert deliver_webhooks() == 2


def test_a_slice_may_end_anywhere(at: Project, receiver: Receiver) -> None:
    hook = webhook(at, receiver)
    sessions(at, 2)
    while log_read(3).more or log_read_behind(3):
        pass
    sessions(at, 2)
    while log_read(3).more or log_read_behind(3):
        pass
    hook.refresh_from_db()
    assert hook.position is None
    log = list(SessionEvent.objects.order_by("id").values_list("pk", flat=True))
    assert set(WebhookDelivery.objects.values_list("event_id", flat=True)) == set(log)
    assert WebhookDelivery.objects.count() == len(log)


def test_earlier_events_of_a_session_are_not_sent_later(at: Project, receiver: Receiver) -> None:
    webhook(at, receiver)
    log_read()
    sessions(at)
    events = SessionEvent.objects.order_by("seq")
    low, high = (events[n].xid for n in (1, 2))
    with connection.cursor() as cursor:  # as if the younger transaction had it first
        cursor.execute("UPDATE sessions_app_sessionevent SET xid = %s::xid8 WHERE seq = 2", [high])
        cursor.execute("UPDATE sessions_app_sessionevent SET xid = %s::xid8 WHERE seq = 3", [low])
    while log_read(1).more or log_read_behind(2):
        pass
    assert log_read(2).passed == 0
    while log_read(2).more:
        pass
    rows = WebhookDelivery.objects.order_by("id").values_list("event_id", flat=True)
    assert list(rows) == [event.pk for event in events]


def test_a_sender_that_dies_before_its_record_sends_again(at: Project, receiver: Receiver) -> None:
    webhook(at, receiver, "session.submitted")
    sessions(at)
    log_read()
    log_read_behind()
    (lost,) = outbox.deliveries_claim(10)
    assert outbox.deliveries_claim(10) == []
    assert deliver_webhooks() == 0
    due_now()  # the claim is over
    (again,) = outbox.deliveries_claim(10)
    assert (again.id, again.attempts) == (lost.id, 2)
    dead = outbox.Outcome(lost, Answer(204), Verdict(Result.DELIVERED))
    outbox.outcomes_record([dead])
    assert states() == [("waiting", 2, None)]


def test_two_runs_at_once_send_nothing_twice(
    at: Project, receiver: Receiver, settings: Any
) -> None:
    settings.REPRISE = {**conf.REPRISE, "webhook_senders": 4}
    webhook(at, receiver)
    sessions(at, 8)
    barrier = threading.Barrier(4)

    def run() -> None:
        barrier.wait(PATIENCE_SECONDS)
        try:
            deliver_webhooks()
        finally:
            connection.close()

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(receiver.ids()) == sorted(
        f"evt_{pk}" for pk in SessionEvent.objects.values_list("pk", flat=True)
    )
    assert receiver.most <= outbox.PER_HOST


def test_a_failing_webhook_is_paused_and_goes_on_where_it_stopped(
    at: Project, receiver: Receiver, settings: Any
) -> None:
    settings.REPRISE = {**conf.REPRISE, "webhook_pause_failures": 3}
    hook = webhook(at, receiver, "session.submitted")
    receiver.answer = lambda _: Says(500, body=b"down\0 for now")
    sessions(at, 4)
    for _ in range(4):
        due_now()
        deliver_webhooks()
    hook.refresh_from_db()
    assert (hook.paused_at, hook.failures >= 3) == (None, True), "not before its time"
    WebhookEndpoint.objects.update(failing_since=F("failing_since") - timedelta(days=2))
    due_now()
    deliver_webhooks()
    hook.refresh_from_db()
    assert hook.paused_at is not None
    assert "attempts failed in a row" in hook.paused_reason
    assert audited_acts().get(action="webhook.pause").actor == "reprise"
    assert WebhookDelivery.objects.filter(response_excerpt="down\ufffd for now").exists()
    came = len(receiver.got)
    sessions(at, 3)  # meanwhile
    due_now()
    assert sweep_webhooks() == 0
    assert WebhookDelivery.objects.count() == 4
    receiver.answer = lambda _: Says()
    endpoints.webhook_resume(hook, by="root")
    deliver_webhooks()
    assert len(receiver.got) == came + 7
    assert {state for state, *_ in states()} == {"delivered"}
    hook.refresh_from_db()
    assert (hook.failures, hook.position) == (0, None)


def test_a_receiver_that_is_gone_is_told_nothing_more(at: Project, receiver: Receiver) -> None:
    hook = webhook(at, receiver, "session.submitted")
    receiver.answer = lambda _: Says(410)
    sessions(at)
    deliver_webhooks()
    hook.refresh_from_db()
    assert hook.paused_reason == "the receiver answered 410 Gone"
    assert states() == [("failed", 1, 410)]


@pytest.mark.parametrize("code", [429, 503])
def test_a_receiver_says_when_to_come_again(at: Project, receiver: Receiver, code: int) -> None:
    webhook(at, receiver, "session.submitted")
    receiver.answer = lambda _: Says(code, {"Retry-After": "4000"})
    sessions(at)
    deliver_webhooks()
    due = WebhookDelivery.objects.get().due_at
    assert due is not None
    assert timedelta(seconds=3900) < due - database_now() <= timedelta(seconds=4000)


def test_redirects_are_not_followed(at: Project, receiver: Receiver) -> None:
    webhook(at, receiver, "session.submitted")
    receiver.answer = lambda _: Says(307, {"Location": receiver.url})
    sessions(at)
    deliver_webhooks()
    assert (len(receiver.got), states()) == (1, [("waiting", 1, 307)])


def test_the_guard_is_asked_at_each_delivery(
    at: Project, receiver: Receiver, settings: Any
) -> None:
    hook = webhook(at, receiver, "session.submitted")
    # A name that led somewhere else when the webhook was made.
    WebhookEndpoint.objects.update(url=f"http://localhost:{receiver.port}/hook")
    settings.WEBHOOK_GUARD = Guard.of([], [], http=True)
    sessions(at)
    deliver_webhooks()
    assert receiver.got == []
    delivery = WebhookDelivery.objects.get()
    assert "localhost resolves to no address that webhooks may reach" in delivery.error
    assert delivery.response_code is None
    settings.WEBHOOK_GUARD = Guard.of([], ["localhost"], http=True)
    due_now()
    deliver_webhooks()
    (got,) = receiver.got
    assert got.verified(hook.new_secret)
    assert got.headers["host"] == f"localhost:{receiver.port}"


def test_two_secrets_sign_while_one_follows_the_other(at: Project, receiver: Receiver) -> None:
    hook = webhook(at, receiver, "session.submitted")
    old = hook.new_secret
    endpoints.webhook_new_secret(hook, overlap=timedelta(hours=1), by="root")
    sessions(at)
    deliver_webhooks()
    for secret in (old, hook.new_secret):
        assert receiver.got[0].verified(secret)
    WebhookEndpoint.objects.update(previous_secret_until=database_now())
    sessions(at)
    deliver_webhooks()
    assert receiver.got[1].verified(hook.new_secret)
    with pytest.raises(WebhookVerificationError):
        receiver.got[1].verified(old)
    for entry in audited_acts().filter(object_type="webhook"):
        assert old not in str(entry.data)
        assert hook.new_secret not in str(entry.data)


def test_a_ping_reaches_one_that_is_paused_and_is_sent_once(
    at: Project, receiver: Receiver
) -> None:
    hook = webhook(at, receiver)
    endpoints.webhook_pause(hook, reason="because", by="root")
    endpoints.webhook_ping(hook)
    sweep_webhooks()
    (got,) = receiver.got
    assert got.verified(hook.new_secret)["type"] == "webhook.ping"
    receiver.answer = lambda _: Says(500)
    endpoints.webhook_ping(hook)
    sweep_webhooks()
    assert states() == [("delivered", 1, 204), ("failed", 1, 500)]
    hook.refresh_from_db()
    assert hook.failures == 0


def test_deliveries_are_sent_again_one_or_many(at: Project, receiver: Receiver) -> None:
    hook = webhook(at, receiver, "session.submitted", "session.running")
    began = database_now()
    receiver.answer = lambda got: Says(410 if got.event["type"] == "session.running" else 204)
    sessions(at, 2)
    for _ in range(3):
        deliver_webhooks()
        endpoints.webhook_resume(hook, by="root")
    assert sorted(states()) == [("delivered", 1, 204)] * 2 + [("failed", 1, 410)] * 2
    receiver.answer = lambda _: Says()
    before = set(receiver.ids())
    del receiver.got[:]
    assert endpoints.webhook_redeliver(hook, since=began) == 2
    assert endpoints.webhook_redeliver(hook, since=began) == 0, "they are on their way"
    deliver_webhooks()
    assert {got.event["type"] for got in receiver.got} == {"session.running"}
    assert endpoints.webhook_redeliver(hook, since=began) == 0, "they have arrived"
    every = DeliveryState.DELIVERED, DeliveryState.FAILED
    assert endpoints.webhook_redeliver(hook, since=began, states=every) == 4
    one = WebhookDelivery.objects.filter(state="delivered").first()
    assert one is not None
    assert endpoints.webhook_redeliver(hook, delivery=one.pk) == 1
    deliver_webhooks()
    assert len(receiver.got) == 7
    assert set(receiver.ids()) == before, "the same ids"


def test_a_slow_receiver_does_not_hold_up_others(at: Project, receiver: Receiver) -> None:
    with receiving() as slow:
        answered = threading.Event()
        slow.answer = lambda _: Says(wait=lambda: answered.wait(PATIENCE_SECONDS))
        webhook(at, slow, "session.submitted")
        webhook(at, receiver, "session.submitted")
        owner = factories.user(superuser=True)
        for _ in range(40):
            factories.submit(at, owner=owner)

        def run() -> None:
            deliver_webhooks()
            connection.close()

        done = threading.Thread(target=run)
        done.start()
        deadline = database_now() + timedelta(seconds=60)
        while len(receiver.got) < 40 and database_now() < deadline:
            time.sleep(0.05)
        assert len(receiver.got) == 40
        assert slow.most == len(slow.got) == outbox.PER_HOST
        answered.set()
        done.join()


def poisoned(at: Project, hanging: Receiver, receiver: Receiver) -> None:
    """As many webhooks as a project may have, each of which does harm in a way of its own."""
    never = f"http://127.0.0.%d:{hanging.port}/"
    hostile = f"{receiver.url}/hostile"
    hooks = [webhook(at, receiver, "session.submitted") for _ in range(endpoints.MOST_OF_PROJECT)]
    for number, hook in enumerate(hooks):
        rows = WebhookEndpoint.objects.filter(pk=hook.pk)
        kind = number % 5
        if kind == 0:  # as one that was stored when such a URL was taken
            rows.update(url="https://1.2.3.999/", host=f"{number}")
        elif kind == 1:
            rows.update(url=hostile, host=f"{number}")
        elif kind == 2:
            rows.update(secret="whsec_a", host=f"{number}")
        else:
            rows.update(url=never % (number + 1), host=f"{number}")


def test_one_tenants_poison_delays_no_other_tenant(
    at: Project, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Receivers that hang, answer nonsense or cannot be sent to, and a good one elsewhere."""
    monkeypatch.setattr("sessions_app.webhooks.delivery_run.TAKING_SECONDS", 1.0)
    elsewhere = factories.project("good", domain="other")
    owner = factories.user(superuser=True)
    overflow = "Mon, 20 Nov 1995 19:12:08 +99999999999999999999"
    hostile = Says(503, {"retry-after": overflow})
    receiver.answer = lambda got: hostile if got.path.endswith("hostile") else Says()
    stopped = threading.Event()

    def send() -> None:
        while not stopped.wait(0.05):
            deliver_webhooks()
        connection.close()

    with receiving("0.0.0.0") as hanging, receiving() as good:
        answered = threading.Event()
        hanging.answer = lambda _: Says(wait=lambda: answered.wait(PATIENCE_SECONDS))
        poisoned(at, hanging, receiver)
        webhook(elsewhere, good, "session.submitted")
        for _ in range(4):
            factories.submit(at, owner=owner)
        sender = threading.Thread(target=send)
        sender.start()
        lags = []
        for number in range(10):
            time.sleep(0.4)
            began = time.monotonic()
            factories.submit(elsewhere, owner=owner)
            while len(good.got) <= number and time.monotonic() < began + 60:
                time.sleep(0.01)
            lags.append(time.monotonic() - began)
        stopped.set()
        answered.set()
        sender.join()
        for thread in threading.enumerate():
            if thread.name == "webhooks-landing":
                thread.join()
        monkeypatch.setattr("sessions_app.webhooks.delivery_run.TAKING_SECONDS", 60.0)
        deliver_webhooks()
    assert max(lags) < 5, lags
    # Each is paused in time like any that fails.
    failing = WebhookEndpoint.objects.filter(project=at, failures__gt=0)
    assert failing.count() == endpoints.MOST_OF_PROJECT * 3 // 5
    assert not WebhookDelivery.objects.filter(endpoint__project=elsewhere, attempts__gt=1).exists()


def test_a_tenant_has_a_bounded_number_of_attempts_on_their_way(
    at: Project, receiver: Receiver
) -> None:
    beside = factories.project("beside", domain="acme")
    third = factories.project("third", domain="acme")
    for project in (at, beside, third):
        for number in range(outbox.PER_PROJECT + 2):
            hook = webhook(project, receiver, "session.submitted")
            WebhookEndpoint.objects.filter(pk=hook.pk).update(host=f"{project.pk}-{number}")
        factories.submit(project)
    log_read()
    log_read_behind()
    first = outbox.deliveries_claim(100)
    assert len(first) == outbox.PER_DOMAIN
    counts = Counter(claimed.project for claimed in first)
    assert max(counts.values()) == outbox.PER_PROJECT
    assert outbox.deliveries_claim(100) == []
    delivered = Verdict(Result.DELIVERED)
    outbox.outcomes_record([Outcome(each, Answer(204), delivered) for each in first[:3]])
    assert len(outbox.deliveries_claim(100)) == 3


def test_an_answer_that_cannot_be_stored_spoils_no_other(at: Project, receiver: Receiver) -> None:
    webhook(at, receiver, "session.submitted")
    sessions(at, 2)
    log_read()
    log_read_behind()
    good, bad = outbox.deliveries_claim(2)
    delivered = Verdict(Result.DELIVERED)
    _record(
        [Outcome(bad, Answer(204, excerpt="\0"), delivered), Outcome(good, Answer(204), delivered)]
    )
    assert sorted(states()) == [("delivered", 1, 204), ("failed", 1, None)]


def test_a_batch_is_a_fixed_number_of_statements(at: Project, receiver: Receiver) -> None:
    counts = []
    for many in (1, 6):
        webhook(at, receiver)
        sessions(at, many)
        log_read()
        log_read_behind()
        sessions(at, many)
        with CaptureQueriesContext(
            connection,
        ) as made:
            log_read()
            outbox.deliveries_claim(100)
        counts.append(len(made))
    assert counts[0] == counts[1]


def test_old_deliveries_are_forgotten_and_waiting_ones_are_not(
    at: Project, receiver: Receiver, owner: Any
) -> None:
    webhook(at, receiver, "session.submitted", "session.running")
    receiver.answer = lambda got: Says(500 if got.event["type"] == "session.running" else 204)
    sessions(at, 2)
    deliver_webhooks()
    due_now()
    prune()
    scraped = Api(factories.token(owner)).get("/metrics").content.decode()
    assert 'reprise_webhooks{state="active"} 1.0' in scraped
    assert "reprise_webhook_deliveries_waiting 2.0" in scraped
    assert WebhookDelivery.objects.count() == 4
    WebhookDelivery.objects.filter(finished_at__isnull=False).update(
        finished_at=database_now() - timedelta(days=31)
    )
    prune()
    assert {state for state, *_ in states()} == {"waiting"}
