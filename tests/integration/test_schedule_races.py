"""Two at once that look at the same schedules: each time has one chain, and nobody hangs."""

from datetime import timedelta
from functools import partial

import pytest
from django.contrib.auth.models import User
from django.db.models import F

from sessions_app.models import Project, Queue, Schedule, Session
from sessions_app.models.schedules import Overlap
from sessions_app.services.resources.tenants import project_delete
from sessions_app.services.schedules.firing import schedules_fire
from sessions_app.services.schedules.saving import schedule_pause
from tests import factories
from tests.invariants import check_all
from tests.racing import race

pytestmark = pytest.mark.django_db(transaction=True)
TIMES = 8
fire = partial(schedules_fire)


def pass_by() -> None:
    earlier = timedelta(seconds=61)
    Schedule.objects.update(
        created_at=F("created_at") - earlier,
        next_at=F("next_at") - earlier,
        due_at=F("due_at") - earlier,
    )


def test_two_sweeps_at_once(at: Project, owner: User) -> None:
    for overlap in Overlap.values:
        factories.schedule(at, owner, overlap=overlap)
    for number in range(1, TIMES + 1):
        pass_by()
        results = race(fire, fire)
        assert sum(each.fired for each in results) in {2, 3}  # `skip` fires once
        roots = Session.objects.filter(parent=None)
        assert roots.count() == 1 + 2 * number
    assert check_all() == []


def test_a_sweep_and_a_pause(at: Project, owner: User) -> None:
    for _ in range(TIMES):
        schedule = factories.schedule(at, owner)
        pass_by()
        race(fire, partial(schedule_pause, schedule, reason="because", by="ann"))
        found = Schedule.objects.get(pk=schedule.pk)
        assert found.paused
        assert len(found.recent) == (found.last_at is not None)
        found.delete()
    assert check_all() == []


def test_a_sweep_and_the_end_of_its_project(owner: User) -> None:
    for _ in range(TIMES):
        project = factories.project()
        factories.schedule(project, owner)
        pass_by()
        race(fire, partial(project_delete, project, by="root"))
        there = Queue.objects.filter(project=project.pk).exists()
        assert Session.objects.filter(project=project.pk).exists() is there
    assert check_all() == []
