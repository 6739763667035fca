"""The machinery in the admin: periodic tasks with their last run, parked tasks."""

import time
from typing import Any

import pytest
from django.utils import timezone
from django_celery_beat.models import IntervalSchedule, PeriodicTask, PeriodicTasks

from reprise.beat.periodic import SWEEPS, RunLog
from reprise.celery import app
from reprise.models import ParkedTask
from tests.audit import audited_acts
from tests.integration.admin import messages_of, operator, text_of, url

TASKS = "django_celery_beat_periodictask"
PARKED = "reprise_parkedtask"


def parked(**fields: Any) -> ParkedTask:
    now = timezone.now()
    values = {
        "task_id": f"id-{ParkedTask.objects.count()}",
        "name": "some.task",
        "arguments": "(7,)",
        "queue": "webhooks",
        "reason": "delivery_limit",
        "first_parked_at": now,
        "parked_at": now,
        "times": 3,
        "message": b"{}",
    }
    return ParkedTask.objects.create(**values | fields)


def test_each_periodic_task_shows_its_last_run() -> None:
    log = RunLog()
    log.record("expire leases", time.time(), 0.125, result="17 leases")
    log.record("sweep due retries", time.time(), 2.5, error="OperationalError: gone")
    page = text_of(operator().get(url(TASKS)))
    for name in SWEEPS:
        assert name in page
    assert "0.125 s" in page
    assert "17 leases" in page
    assert "2.500 s" in page
    assert "OperationalError: gone" in page


def test_an_operator_changes_an_interval_and_beat_is_told() -> None:
    row = PeriodicTask.objects.get(name="expire leases")
    slower = IntervalSchedule.objects.create(every=77, period=IntervalSchedule.SECONDS)
    before = PeriodicTasks.last_change()
    fields = {"name": row.name, "task": row.task, "enabled": "on", "interval": slower.pk}
    fields |= {"args": "[]", "kwargs": "{}", "queue": row.queue}
    response = operator().post(url(TASKS, "change", row.pk), fields)
    assert response.status_code == 302, response.context["errors"]
    row.refresh_from_db()
    assert row.interval.every == 77
    assert PeriodicTasks.last_change() > before
    entry = audited_acts().get(object_type="periodic_task")
    assert (entry.actor, entry.data["after"]) == ("root", {"interval_id": slower.pk})


def test_switched_off_tasks_are_told_to_beat() -> None:
    before = PeriodicTasks.last_change()
    row = PeriodicTask.objects.get(name="expire leases")
    chosen = {"action": "disable_tasks", "_selected_action": [row.pk]}
    operator().post(url(TASKS), chosen)
    row.refresh_from_db()
    assert not row.enabled
    assert PeriodicTasks.last_change() > before


def test_a_parked_task_says_what_and_how_often() -> None:
    parked()
    page = text_of(operator().get(url(PARKED)))
    for word in ("some.task", "(7,)", "webhooks", "delivery_limit", "3"):
        assert word in page


def test_a_parked_task_is_discarded() -> None:
    chosen, other = parked(), parked()
    fields = {"action": "discard", "_selected_action": [chosen.pk]}
    response = operator("ada").post(url(PARKED), fields, follow=True)
    assert any("Discarded: 1" in text for text in messages_of(response))
    chosen.refresh_from_db()
    other.refresh_from_db()
    assert (chosen.state, chosen.handled_by, other.state) == ("discarded", "ada", "parked")


def test_nothing_is_lost_when_the_broker_is_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    row = parked()
    monkeypatch.setitem(app.conf, "broker_url", "amqp://guest:guest@127.0.0.1:9//")
    fields = {"action": "send_again", "_selected_action": [row.pk]}
    response = operator().post(url(PARKED), fields, follow=True)
    assert any("Not sent" in text for text in messages_of(response))
    row.refresh_from_db()
    assert row.state == "parked"
