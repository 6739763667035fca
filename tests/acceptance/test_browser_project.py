"""The pages of a project in a real browser: the way through each form, and what they look like."""

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from pytest_django.live_server_helper import LiveServer

from scheduler.models import Reservation
from sessions_app.models import Project, RetryDefaults, WebhookDelivery, WebhookEndpoint
from sessions_app.models.tenants import Role
from sessions_app.services.chains.dispatch import retries_dispatch
from tests import factories
from tests.acceptance.browsing import DESKTOP, PHONE, Browser, sign_in
from tests.pages import STRICT, project
from tests.told_log import failures_count

__all__ = ["project"]

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
AT = "/projects/acme/work/"
SETTLED_MS = 100
"""Longer than htmx takes until the focus no longer moves."""
NAMED = "(cell) => getComputedStyle(cell, '::before').content"
"""The name that a cell has before its figure."""


@pytest.fixture
def lead(project: Project) -> User:
    return factories.user("lea", project=project, role=Role.MAINTAINER)


def test_a_lead_sets_defaults_and_tries_a_body(
    browser: Browser, live_server: LiveServer, project: Project, lead: User
) -> None:
    sign_in(browser, live_server, lead, "/projects/")
    browser.page.click("main a")
    browser.page.wait_for_url(f"**{AT}")
    browser.page.fill("[name=max_retries]", "4")
    browser.page.check("[name=set_max_retries]")
    browser.press("Enter")
    browser.page.wait_for_selector(".messages .success")
    assert RetryDefaults.objects.get().policy == {"max_retries": 4}
    browser.page.fill("[name=body]", "image: a\nretry_policy: {max_retries: x}\n")
    browser.page.click("text=Show what it would get")
    browser.page.wait_for_selector("#would-get-part .error")
    assert "(line 2)" in browser.page.inner_text("#would-get-part .error")
    browser.page.fill("[name=body]", "image: a\nretry_policy: {retry_delay: 5}\n")
    browser.page.click("text=Show what it would get")
    browser.page.wait_for_selector("#would-get")
    assert browser.page.inner_text("#would-get-policy tr.current th") == "retry_delay"
    browser.fit_for_all("project-defaults")


def tab_to(browser: Browser, selector: str) -> None:
    """Press Tab until the focus is there, as a reader without a mouse does."""
    for _ in range(80):
        browser.press("Tab")
        if browser.run(f"document.activeElement.matches({selector!r})"):
            return
    raise AssertionError(f"{selector} is not reached by Tab")


def follow(browser: Browser) -> None:
    """Press Enter on what leads to another page, and wait for that."""
    with browser.page.expect_navigation():
        browser.press("Enter")


def test_a_lead_edits_a_policy_with_the_keyboard_alone(
    browser: Browser, live_server: LiveServer, project: Project, lead: User
) -> None:
    for _ in range(3):
        factories.settle(factories.start(factories.submit(project, owner=lead)), exit_code=65)
    sign_in(browser, live_server, lead, f"{AT}policies/")
    tab_to(browser, "a[href$='/new/']")
    follow(browser)
    tab_to(browser, "#field-text")
    browser.press("Control+a")
    browser.write(STRICT.replace("Fail\n", "Fial\n"))
    browser.page.wait_for_selector("#draft-errors")
    assert "spec.rules[0].action (line 7)" in browser.page.inner_text("#draft-errors")
    browser.press("Control+a")
    browser.write(STRICT)
    browser.page.wait_for_selector("#draft-check .good")
    browser.page.wait_for_selector("#sample")
    assert "Tried on all 3" in browser.page.inner_text("#sample")
    assert browser.run("document.activeElement.id") == "field-text"
    tab_to(browser, "button[value=save]")
    follow(browser)
    browser.page.wait_for_selector(".messages .success")
    tab_to(browser, "#field-text")
    browser.press("Control+a")
    browser.write(STRICT.replace("[65]", "[65, 66]"))
    tab_to(browser, "button[value=save]")
    follow(browser)
    browser.page.wait_for_selector("#revisions tr:nth-child(2)")
    browser.page.wait_for_selector("#sample")
    browser.fit_for_all("project-policy")
    tab_to(browser, "#revisions a[href*='revisions/1/']")
    follow(browser)
    tab_to(browser, "main button")
    follow(browser)
    browser.page.wait_for_selector("text=Revision 3 of strict decides")
    browser.open(f"{live_server.url}{AT}policies/at/strict/revisions/2/")
    browser.fit_for_all("project-revision")


def test_a_lead_finds_out_why_it_failed_and_makes_the_project_retry_it(
    browser: Browser, live_server: LiveServer, project: Project, lead: User
) -> None:
    failed = factories.settle(factories.start(factories.submit(project, owner=lead)), exit_code=65)
    sign_in(browser, live_server, lead, f"/sessions/{failed.pk}/")
    page = browser.page
    page.click("text=Retry such failures in the whole project")
    page.click("#rule-edit-1")
    page.wait_for_selector("#field-rule-name")
    browser.fit_for_all("project-rule")
    page.fill("[name=rule-codes]", "65, x")
    browser.press("Enter")
    page.wait_for_selector("#field-rule-codes-error")
    page.wait_for_timeout(SETTLED_MS)
    assert browser.run("document.activeElement.id") == "field-rule-codes"
    assert all("400" in each for each in browser.problems)
    browser.problems.clear()
    page.fill("[name=rule-codes]", "65, 75")
    browser.press("Enter")
    page.wait_for_selector("#draft-rules [role=status]")
    assert "values: [65, 75]" in page.input_value("#field-text")
    page.wait_for_selector("#draft-check .good")
    page.click("#rule-add")
    page.fill("[name=rule-name]", "memory")
    page.check("[name=rule-conditions][value=OOMKilled]")
    page.fill("[name=rule-memory]", "1.5")
    page.click("text=Put it into the text")
    page.wait_for_selector("#rule-up-2")
    browser.fit_for_all("project-rules")
    page.fill("#field-text", page.input_value("#field-text").replace("memory\n", "more\n"))
    page.wait_for_selector("#draft-rules >> text=more")
    page.click("button[value=save]")
    page.click("text=Use it in default")
    browser.fit_for_all("project-policy-use")
    page.click("button.primary >> text=Use it first")
    page.wait_for_selector(".messages .success")
    again = factories.settle(factories.start(factories.submit(project, owner=lead)), exit_code=75)
    browser.open(f"{live_server.url}/sessions/{again.pk}/")
    assert "rule retry-exit-code-65/exit-code-65" in page.inner_text("main")


def test_a_lead_looks_after_queues(
    browser: Browser, live_server: LiveServer, project: Project, lead: User
) -> None:
    above = factories.user("dom", domain=project.domain, role=Role.DOMAIN_ADMIN)
    factories.quotas(project, sessions=8, cpu=64)
    for name, runs in (("default", 3), ("night", 2), ("batch", 1)):
        if name != "default":
            factories.queue(project, name)
        for _ in range(runs):
            factories.start(factories.submit(project, owner=lead, queue=name))
    sign_in(browser, live_server, above, f"{AT}queues/")
    browser.page.wait_for_selector("#shares svg")
    browser.page.click("text=Set the limits of the project")
    browser.fit_for_all("project-queues")
    browser.page.fill("[name=quota_sessions]", "9")
    browser.page.click("text=Save quotas")
    browser.page.wait_for_selector(".messages .success")
    browser.page.click("main .name >> text=night")
    browser.page.fill("[name=priority_factor]", "0.5")
    browser.page.check("[name=cordoned]")
    browser.page.fill("[name=cordon_reason]", "repairs")
    browser.fit_for_all("project-queue")
    browser.page.click("main >> text=Save")
    browser.page.wait_for_selector("text=repairs")


def test_a_lead_sees_who_made_room(
    browser: Browser, live_server: LiveServer, project: Project, lead: User
) -> None:
    rack, far = factories.executor("rack-1"), factories.project("far", domain="other")
    taker, hidden = factories.submit(project, owner=lead), factories.submit(far)
    for other in (taker, hidden):
        victim = factories.settle(factories.start(factories.submit(project)), exit_code=143)
        factories.room_made(rack, victim, other, rule="fair_share", nodes=["node-a", "node-b"])
        factories.room_made(rack, other, victim, dry_run=True)
    Reservation.objects.create(executor=rack, session=taker, nodes=["node-a"])
    sign_in(browser, live_server, lead, f"{AT}queues/")
    browser.page.wait_for_selector("#preemptions table")
    browser.page.wait_for_selector("#shares p")
    assert "a session of class default in another project" in browser.page.inner_text("main")
    browser.fit_for_all("project-preemptions")
    browser.page.click("#preemptions .name a")
    browser.page.wait_for_url("**/sessions/*/")


def test_members_tokens_and_webhooks_are_looked_after(
    browser: Browser, live_server: LiveServer, project: Project
) -> None:
    above = factories.user("dom", domain=project.domain, role=Role.DOMAIN_ADMIN)
    factories.user("new")
    sign_in(browser, live_server, above, f"{AT}members/")
    browser.page.fill("[name=user]", "new")
    browser.page.click("main button.primary")
    browser.page.wait_for_selector("text=new is a member of the project.")
    browser.fit_for_all("project-members")
    browser.page.click("nav.tabs >> text=Tokens")
    browser.page.fill("[name=name]", "nightly")
    browser.page.click("main button.primary")
    browser.page.wait_for_selector("#token")
    browser.fit_for_all("project-tokens")
    browser.page.click("nav.tabs >> text=Webhooks")
    browser.page.fill("[name=url]", "https://example.com/hook")
    browser.page.click("main button.primary")
    browser.page.wait_for_selector("#secret")
    browser.fit_for_all("project-webhooks")
    found = WebhookEndpoint.objects.get()
    for number, state in enumerate(("failed", "delivered", "failed")):
        WebhookDelivery.objects.create(
            endpoint=found,
            event_id=number,
            type="session.error",
            state=state,
            attempts=number + 1,
            finished_at=timezone.now(),
            response_code=200 if state == "delivered" else 503,
            response_excerpt="the server is being repaired " * number,
            latency_ms=87,
        )
    browser.open(f"{live_server.url}{AT}webhooks/{found.pk}/")
    browser.fit_for_all("project-webhook")
    browser.page.click("button[id^=again-] >> nth=0")
    browser.page.wait_for_selector("text=It is sent again")


def test_a_lead_looks_at_failures(
    browser: Browser, live_server: LiveServer, project: Project, lead: User
) -> None:
    long = f"registry.example.com/research/{'training-' * 5}images/train:2026-03-01"
    for text, image in (("disk is full", "busybox:1"), ("connection reset by peer", long)):
        session = factories.start(factories.submit(project, owner=lead, image=image), "rack-1")
        factories.failure(factories.settle(session, message=text), image=image)
    factories.breaker(project, reason="the licence server is down since this morning")
    sign_in(browser, live_server, lead, f"{AT}failures/")
    browser.fit_for_all("project-failures")
    browser.look(PHONE)
    row = "main .labelled tbody tr >> nth=0"
    assert browser.page.locator(row).locator(".number").first.evaluate(NAMED) == '"Failed "'
    browser.look(DESKTOP)
    browser.page.click("main .name >> text=disk is full")
    browser.page.wait_for_selector("main svg")
    browser.page.click("text=As a table")
    browser.fit_for_all("project-failure")
    browser.page.click("main button >> text=Mute")
    browser.page.wait_for_selector(".messages .success")
    browser.page.click("main .trail >> text=Failures")
    browser.page.wait_for_selector("text=connection reset")
    assert "disk is full" not in browser.page.inner_text("main")
    browser.page.click("text=connection reset")
    browser.page.wait_for_selector("#sessions-title")
    browser.fit_for_all("project-failure-sessions")
    browser.page.click("text=All its sessions")
    browser.page.wait_for_selector("main tbody tr")
    assert "signature=" in browser.page.url


def test_a_lead_looks_at_what_retries_were_worth(
    browser: Browser, live_server: LiveServer, project: Project, lead: User
) -> None:
    for image, facts in (("busybox:1", {"exit_code": 0, "status": "terminated"}), ("torch:2", {})):
        retried = factories.policy(max_retries=1)
        root = factories.submit(project, owner=lead, image=image, retry_policy=retried)
        factories.settle(factories.start(root), message="disk is full")
        retries_dispatch()
        factories.settle(factories.start(factories.tip(root)), **facts)
    failures_count()
    sign_in(browser, live_server, lead, f"{AT}worth/")
    browser.page.wait_for_selector("text=2 chains ended")
    browser.fit_for_all("project-worth")
    browser.page.click("main summary >> text=Filters")
    browser.page.fill("[name=queue]", "default")
    browser.press("Enter")
    browser.page.wait_for_selector("text=Only attempts that match the filters count")
    browser.fit_for_all("project-worth-filtered")
    browser.page.click("main .chips >> text=By image")
    browser.page.click("main .chips >> text=Recovered chains")
    browser.page.wait_for_selector("main .name >> text=busybox:1")
    assert "by=image" in browser.page.url
    assert "queue=default" in browser.page.url
    browser.page.click("text=As a table")
    with browser.page.expect_download() as download:
        browser.page.click("main >> text=As CSV")
    assert download.value.suggested_filename == "retries-by-image.csv"
