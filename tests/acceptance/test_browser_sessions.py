"""The list of sessions and the first run, in a real browser, the way people use them."""

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from pytest_django.live_server_helper import LiveServer

from scheduler.models import Executor
from sessions_app.core.states import Status
from sessions_app.models import Project, SavedSearch, Session
from sessions_app.services.sessions import prepared_actions
from tests import factories
from tests.acceptance.browsing import Browser, sign_in
from tests.acceptance.test_browser import owner, project
from tests.waiting import until

__all__ = ["owner", "project"]
pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

_WIDER = "document.documentElement.scrollWidth > innerWidth"
_ROW_TOP = "document.querySelector('#row-{}').getBoundingClientRect().top"


def press_until(browser: Browser, selector: str, key: str = "Tab", most: int = 60) -> None:
    """Press a key until the focus is where it should be, as without a mouse."""
    for _ in range(most):
        if browser.run(f"document.activeElement.matches({selector!r})"):
            return
        browser.press(key)
    raise AssertionError(f"the keyboard does not reach {selector}")


def several(project: Project, owner: User) -> list[Session]:
    """Sessions in most states."""
    later = {"max_retries": 3, "retry_delay": 3600.0}
    failed = [factories.submit(project, owner=owner, name=f"train-{n}") for n in range(3)]
    made = [factories.settle(factories.start(each), exit_code=137) for each in failed]
    waits = factories.submit(project, owner=owner, name="waits-" + "x" * 80, retry_policy=later)
    made.append(factories.settle(waits))
    over = factories.start(factories.submit(project, owner=owner, name="good"))
    made.append(factories.settle(over, status="terminated", exit_code=0))
    made.append(factories.start(factories.submit(project, owner=owner, name="runs")))
    return made


def test_the_list_and_its_questions_are_fit_for_all(
    browser: Browser, live_server: LiveServer, project: Project, owner: User
) -> None:
    several(project, owner)
    SavedSearch.objects.create(user=owner, name="my failures", query="status=ERROR&owner=olga")
    sign_in(browser, live_server, owner)
    browser.fit_for_all("sessions")
    browser.open(f"{live_server.url}/?status=ERROR&owner=olga&image=none&created_after=x")
    browser.fit_for_all("sessions-none-fits")
    browser.open(f"{live_server.url}/?status=ERROR&columns=cause,executor,job_set,priority,started")
    browser.fit_for_all("sessions-other-columns")
    browser.open(f"{live_server.url}/?status=ERROR")
    browser.page.check("#pick-all")
    browser.page.click("button[value=retry]")
    browser.page.wait_for_url("**/sessions/many/**")
    browser.fit_for_all("sessions-question")
    browser.page.click("button[name=confirmed]")
    browser.wait("document.querySelector('#progress-form .button')")
    browser.fit_for_all("sessions-outcome")


def test_the_page_of_a_session_that_waits_leads_to_its_priority(
    browser: Browser, live_server: LiveServer, project: Project, owner: User
) -> None:
    waiting = factories.submit(project, owner=owner)
    sign_in(browser, live_server, owner)
    browser.open(f"{live_server.url}/sessions/{waiting.pk}/")
    browser.page.click("#prioritize")
    browser.page.wait_for_url("**/sessions/many/**")
    browser.fit_for_all("sessions-priority")
    browser.page.fill("#field-priority", "-5")
    browser.page.click("button[name=confirmed]")
    browser.page.wait_for_selector("text=1 of 1 reprioritized")
    assert factories.reread(waiting).priority == -5


def test_filters_lead_to_a_search_that_is_saved(
    browser: Browser, live_server: LiveServer, project: Project, owner: User
) -> None:
    several(project, owner)
    sign_in(browser, live_server, owner)
    browser.page.select_option("#field-status", "ERROR")
    browser.page.click("#more-filters > summary")
    browser.page.fill("#field-owner", "olga")
    browser.page.click("text=Filter >> nth=0")
    browser.page.wait_for_url("**owner=olga**")
    assert browser.run("document.querySelectorAll('tbody tr').length") == 4
    browser.page.click("#save-search > summary")
    browser.page.fill("#field-name", "my failures")
    browser.page.click("#save-search button")
    browser.page.wait_for_selector(".searches")
    browser.page.click(".chip >> nth=0")
    browser.page.wait_for_url(lambda url: "status" not in url)
    assert browser.run("document.querySelectorAll('tbody tr').length") == 6
    browser.page.click(".searches a")
    browser.page.wait_for_url("**status=ERROR**")


def test_many_are_retried_by_keyboard_alone(
    browser: Browser,
    live_server: LiveServer,
    project: Project,
    owner: User,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prepared_actions, "SLICE", 1)
    monkeypatch.setattr("interfaces.web.many_sessions.REQUEST_SECONDS", -1.0)
    several(project, owner)
    sign_in(browser, live_server, owner)
    browser.open(f"{live_server.url}/?status=ERROR&retry_state=not_retried")
    press_until(browser, "#choose-all")
    browser.press("Space")
    browser.wait("document.querySelector('#match-count').textContent === '3'")
    press_until(browser, "button[value=retry]")
    browser.press("Enter")
    browser.page.wait_for_url("**/sessions/many/**")
    assert "Retry 3 sessions" in browser.run("document.querySelector('h1').textContent")
    press_until(browser, "#field-memory")
    browser.write("2Gi")
    press_until(browser, "button[name=confirmed]")
    browser.press("Enter")
    browser.wait("document.querySelector('#progress-form .button')?.textContent.includes('Back')")
    children = Session.objects.filter(parent__isnull=False)
    assert [each.spec.resources for each in children] == [{"memory": "2Gi"}] * 3


def test_rows_keep_current_and_stay_where_they_are(
    browser: Browser, live_server: LiveServer, project: Project, owner: User
) -> None:
    sessions = [factories.submit(project, owner=owner, name=f"s-{n}") for n in range(30)]
    browser.look((1280, 500))
    sign_in(browser, live_server, owner)
    kept = sessions[10].pk
    browser.page.check(f"#pick-{sessions[12].pk}")
    browser.run("document.querySelector('details').open = true")
    browser.run(f"document.querySelector('#row-{kept}').scrollIntoView({{block: 'center'}})")
    browser.page.focus(f"#pick-{kept}")
    before = browser.run(_ROW_TOP.format(kept))
    factories.submit(project, owner=owner, name="new")
    factories.start(sessions[10])
    browser.wait("document.querySelector('#live').textContent.includes('new')")
    assert browser.run(_ROW_TOP.format(kept)) == pytest.approx(before, abs=2)
    assert browser.run("document.activeElement.id") == f"pick-{kept}"
    assert browser.run(f"document.querySelector('#pick-{sessions[12].pk}').checked")
    assert browser.run("document.querySelector('[data-chosen]').textContent") == "1"
    assert "RUNNING" in browser.run(f"document.querySelector('#row-{kept}').textContent")


def test_a_list_is_read_and_acted_on_without_javascript(
    browser: Browser, live_server: LiveServer, project: Project, owner: User
) -> None:
    session = factories.submit(project, owner=owner, name="fresh")
    browser.renew(javascript=False)
    sign_in(browser, live_server, owner)
    assert "fresh" in browser.page.locator("tbody").inner_text()
    browser.page.check(f"#pick-{session.pk}")
    browser.page.click("button[value=cancel]")
    browser.page.click("button[name=confirmed]")
    assert "1 of 1" in browser.page.locator("#progress-form").inner_text()
    assert factories.reread(session).status == Status.CANCELLED


def test_the_first_run_leads_to_the_demo_session(
    browser: Browser, live_server: LiveServer, project: Project, owner: User
) -> None:
    sign_in(browser, live_server, owner)
    browser.fit_for_all("first-run-not-ready")
    assert browser.page.is_disabled("text=Run the demo session")
    factories.executor("east")
    Executor.objects.update(last_seen_at=timezone.now())
    browser.open(f"{live_server.url}/")
    browser.fit_for_all("first-run")
    browser.page.click("text=Run the demo session")
    made = until(Session.objects.first, "the session is there")
    browser.page.wait_for_url(f"**/sessions/{made.pk}/")
    assert "Submitted." in browser.page.locator(".messages").inner_text()
