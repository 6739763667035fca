"""The page of operators in a real browser: what is wrong, kept current, and the act that helps."""

from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django.live_server_helper import LiveServer

from reprise.models import Heartbeat
from scheduler.models import Executor, Reservation
from sessions_app.models import Queue, RetryDecision
from tests import factories
from tests.acceptance.browsing import Browser, sign_in
from tests.integration.admin import World, past_day

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def night() -> World:
    """A night in which several things go wrong."""
    world = World(3)
    now = timezone.now()
    Executor.objects.filter(name="n1").update(last_seen_at=now - timedelta(minutes=20))
    told = "the namespace batch has no room for pods: exceeded quota"
    Executor.objects.filter(name="n2").update(last_seen_at=now, trouble=told)
    Heartbeat.objects.create(part="beat", name="beat@host:7", started_at=now, seen_at=now)
    RetryDecision.objects.filter(state="scheduled").update(due_at=now - timedelta(minutes=2))
    large = factories.submit(world.project, name="large")
    Reservation.objects.create(executor=world.executor, session=large, nodes=["n1", "n2"])
    factories.parked(world.project)
    factories.spent_budget(world.project)
    past_day(now)
    return world


def test_operators_see_what_is_wrong_and_help(
    browser: Browser, live_server: LiveServer, night: World
) -> None:
    root = factories.user("root", superuser=True)
    sign_in(browser, live_server, root, "/operations/")
    browser.run("document.querySelectorAll('#now details').forEach((each) => each.open = true)")
    browser.fit_for_all("operations")
    Queue.objects.filter(cordoned=True).update(cordoned=False)
    browser.wait("!document.querySelector('#now').textContent.includes('is cordoned: moving')")
    assert browser.run("document.querySelector('#switches-2').open"), "as it was left"
    executors = browser.page.get_by_role("table", name="Executors")
    executors.get_by_role("link", name="Cordon: agent-0").focus()
    browser.press("Enter")
    browser.page.wait_for_url("**/operations/executor_cordon/**")
    assert browser.violations() == []
    browser.keep("operations-act")
    browser.page.get_by_label("Reason").focus()
    browser.write("a new kernel")
    browser.press("Enter")
    browser.page.wait_for_url("**/operations/")
    assert Executor.objects.get(name="agent-0").cordon_reason == "a new kernel"
