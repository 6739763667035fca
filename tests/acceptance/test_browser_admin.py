"""The admin in a real browser: an operator at work, in light and dark, with our files only."""

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from pytest_django.live_server_helper import LiveServer

from scheduler.allocation.queue_usage import queue_usage_refresh
from sessions_app.models import Project, RetryPolicy, RetrySettings, Session
from tests import factories
from tests.acceptance.browsing import (
    COLOURS,
    DESKTOP,
    PHONE,
    Browser,
    asked_elsewhere,
    sign_in,
)
from tests.audit import audited_acts
from tests.integration.admin import World, past_day, records, url

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

_CLICK = (
    "[...document.querySelectorAll('button, a')].find(n => n.textContent.trim() === {}).click()"
)
_UNSHOWN = "[...document.querySelectorAll('img')].filter(i => i.complete && !i.naturalWidth).length"
_LIGHTNESS = """(() => {
    const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
    canvas.fillStyle = getComputedStyle(document.querySelector('#main')).backgroundColor;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = canvas.getImageData(0, 0, 1, 1).data;
    return (r + g + b) / 765; })()"""
# The theme asks for the browser's scheme when it is chosen, and not when the scheme changes.
_LOOK_AGAIN = """(() => {
    const theme = Alpine.$data(document.documentElement);
    theme.switchTheme('light'); theme.switchTheme('auto'); })()"""

_COLOURS_HAVE_CHANGED = (
    "Promise.all(document.getAnimations().filter((each) => each instanceof CSSTransition)"
    ".map((each) => each.finished)).then(() => 0)"
)


@pytest.fixture
def root() -> User:
    return factories.user("root", superuser=True)


@pytest.fixture
def pages(world: World) -> dict[str, str]:
    for queue in ("default", "extra", "extra"):
        factories.submit(Project.objects.get(name="n1"), owner=world.owner, queue=queue)
    factories.named_policy("popular", retryLimit=1)
    for number in range(9):
        factories.attach(factories.queue(world.project, f"batch-{number}"), "popular")
    queue_usage_refresh()
    past_day(timezone.now())
    found = {"index": "/admin/"}
    for kind in ("retrydefaults", "queue", "apitoken", "membership", "retrypolicy", "breaker"):
        found[f"{kind}-add"] = url(f"sessions_app_{kind}", "add")
    policy = RetryPolicy.objects.filter(revision=2)[:1].get()
    found["revision"] = url("sessions_app_retrypolicy", "revision", policy.pk, 2)
    found["delete-policy"] = url("sessions_app_retrypolicy", "delete", policy.pk)
    found["simulate"] = url("sessions_app_retrypolicy", "simulate")
    for kind, record in records().items():
        found[kind] = url(kind)
        if record is not None:
            found[f"{kind}-change"] = url(kind, "change", record.pk)
    return found


@pytest.fixture
def world() -> World:
    return World(3)


def click(browser: Browser, text: str) -> None:
    browser.run(_CLICK.format(json.dumps(text)))


def wait_for_page(browser: Browser, path: str) -> None:
    browser.wait(f"location.pathname === {json.dumps(path)} && document.readyState === 'complete'")


@pytest.fixture
def signed_in(browser: Browser, live_server: LiveServer, root: User) -> Browser:
    sign_in(browser, live_server, root, "/admin/")
    return browser


def test_the_door_asks_only_us(browser: Browser, live_server: LiveServer) -> None:
    browser.open(f"{live_server.url}/admin/login/")
    assert asked_elsewhere(browser, live_server) == []
    browser.keep("admin-login")


@pytest.mark.timeout(1800)
def test_every_page_is_whole_and_asks_only_us(
    signed_in: Browser, live_server: LiveServer, pages: dict[str, str]
) -> None:
    """Each page in one scheme and then, without loading it again, in the other and on a phone."""
    browser, dark = signed_in, False
    found: dict[str, Any] = {}
    for name, path in pages.items():
        browser.look(DESKTOP, dark=dark)
        browser.open(f"{live_server.url}{path}")
        _is_whole(browser, live_server, name, dark=dark)
        found[name] = browser.violations()
        dark = not dark
        browser.look(DESKTOP, dark=dark)
        browser.run(_LOOK_AGAIN)
        _is_whole(browser, live_server, name, dark=dark)
        browser.run(_COLOURS_HAVE_CHANGED)
        found[f"{name}, the other scheme"] = browser.violations(*COLOURS)
        browser.look(PHONE, dark=dark)
        found[f"{name}, phone"] = browser.violations()
    broken = {name: each for name, each in found.items() if each}
    assert not broken, "\n".join(f"{name}: {each}" for name, each in broken.items())


def _is_whole(browser: Browser, live_server: LiveServer, name: str, *, dark: bool) -> None:
    browser.wait(f"{_LIGHTNESS} {'<' if dark else '>='} 0.3")
    assert asked_elsewhere(browser, live_server) == [], name
    assert browser.run(_UNSHOWN) == 0, name
    assert browser.problems == [], name
    browser.keep(f"admin-{name}-{'dark' if dark else 'light'}")


def test_on_a_phone_nothing_is_wider_than_the_screen(
    signed_in: Browser, live_server: LiveServer, pages: dict[str, str]
) -> None:
    browser = signed_in
    browser.look(PHONE)
    for name in (
        "index",
        "sessions_app_session-change",
        "scheduler_node-change",
        "breaker-add",
        "sessions_app_failuresignature-change",
        "sessions_app_queue-change",
        "sessions_app_retrydefaults-change",
        "sessions_app_retrypolicy-change",
        "revision",
        "simulate",
    ):
        browser.open(f"{live_server.url}{pages[name]}")
        assert not browser.run("document.documentElement.scrollWidth > innerWidth"), name
        browser.keep(f"admin-{name}-phone")


def test_an_operator_switches_retries_off_after_reading_what_that_does(
    signed_in: Browser, live_server: LiveServer, world: World
) -> None:
    browser = signed_in
    browser.open(f"{live_server.url}/admin/sessions_app/retrysettings/add/?cluster=1")
    browser.run("document.querySelector('[name=mode][value=off]').click()")
    click(browser, "Save")
    browser.wait("document.querySelector('#scheduled')")
    assert browser.run("document.querySelector('#scheduled').textContent") == "3"
    assert not RetrySettings.objects.filter(domain=None, project=None).exists()
    browser.keep("admin-confirm")
    click(browser, "Yes, switch off")
    wait_for_page(browser, "/admin/sessions_app/retrysettings/")
    assert RetrySettings.objects.get(domain=None, project=None).mode == "off"
    assert audited_acts().filter(actor="root", object_id="cluster").exists()


def test_an_operator_cancels_chosen_chains_from_the_list(
    signed_in: Browser, live_server: LiveServer, world: World
) -> None:
    browser = signed_in
    browser.open(f"{live_server.url}{url('sessions_app_session')}")
    browser.run("document.querySelectorAll('tbody .action-select').forEach(box => box.click())")
    browser.run(
        "(() => { const choice = document.querySelector('select[name=action]');"
        "choice.value = 'cancel_chains'; choice.dispatchEvent(new Event('input'));"
        "choice.dispatchEvent(new Event('change')); })()"
    )
    browser.keep("admin-chosen")
    browser.wait("document.querySelector('button[name=index]').offsetParent !== null")
    browser.run("document.querySelector('button[name=index]').click()")
    browser.page.click("text=Yes, cancel 6 sessions")
    browser.page.wait_for_selector("text=6 of 6 cancelled")
    browser.page.click("text=Back to the list")
    wait_for_page(browser, url("sessions_app_session"))


def retype(browser: Browser, before: str, after: str) -> None:
    """Change a part of the document."""
    browser.run(
        "(() => { const text = document.querySelector('[name=text]');"
        f"text.value = text.value.replace({json.dumps(before)}, {json.dumps(after)}); }})()"
    )


def test_an_operator_writes_a_policy_corrects_it_and_tries_a_change(
    signed_in: Browser, live_server: LiveServer, world: World
) -> None:
    browser = signed_in
    browser.open(f"{live_server.url}/admin/sessions_app/retrypolicy/add/")
    retype(browser, "retryLimit: 5", "retryLimt: 5")
    browser.run("document.querySelector('#retry-policy [name=_save]').click()")
    browser.wait("!!document.querySelector('.errornote')")
    assert browser.run("document.body.textContent.includes('spec.retryLimt (line 7)')")
    browser.keep("admin-policy-refused")
    retype(browser, "retryLimt: 5", "retryLimit: 5")
    browser.run("document.querySelector('#retry-policy [name=_save]').click()")
    browser.wait("!!document.querySelector('#revisions')")
    policy = RetryPolicy.objects.get(name="my-policy")
    browser.keep("admin-policy-made")
    click(browser, "Simulate a change")
    browser.wait("!!document.querySelector('#simulate')")
    project = f"<option value={world.project.pk} selected></option>"
    browser.run(f"document.querySelector('[name=project]').innerHTML = {json.dumps(project)}")
    retype(browser, "values: [2, 65]", "values: [3]")
    browser.run("document.querySelector('#simulate [type=submit]').click()")
    browser.wait("!!document.querySelector('#figures')")
    assert browser.run("document.querySelector('#figures dd').textContent") == "0"
    browser.keep("admin-simulated")
    assert policy.revisions.count() == 1


def test_an_operator_backfills_a_schedule_after_reading_the_dry_run(
    signed_in: Browser, live_server: LiveServer, world: World
) -> None:
    browser, page = signed_in, signed_in.page
    factories.schedule(world.project, world.owner, name="hourly", cron="0 * * * *", every=None)
    browser.open(f"{live_server.url}/admin/sessions_app/schedule/?q=work")
    page.check("tr:has-text('hourly') [name=_selected_action]")
    page.select_option("select[name=action]", "backfill")
    with page.expect_navigation():
        browser.run("document.querySelector('#changelist-form').requestSubmit()")
    page.fill("[name=from]", "2020-01-01T00:00")
    page.fill("[name=to]", "2020-01-01T05:00")
    click(browser, "Show what it would do")
    page.click("#dry-run summary")
    for dark in (False, True):
        browser.look(DESKTOP, dark=dark)
        browser.run(_LOOK_AGAIN)
        browser.keep(f"admin-backfill-{'dark' if dark else 'light'}")
        assert browser.violations_in("#confirm-backfill") == []
    browser.look(PHONE)
    browser.keep("admin-backfill-phone")
    assert not browser.run("document.documentElement.scrollWidth > innerWidth")
    # The page that follows has the same address.
    with page.expect_navigation():
        click(browser, "Yes, submit 6 sessions")
    made = Session.objects.filter(creation_id__endswith=":backfill-1")
    assert made.count() == 6


def test_an_operator_sees_the_next_times_of_a_schedule_before_saving_it(
    signed_in: Browser, live_server: LiveServer, world: World
) -> None:
    browser, page = signed_in, signed_in.page
    made = factories.schedule(world.project, world.owner, name="hourly")
    browser.open(f"{live_server.url}/admin/sessions_app/schedule/{made.pk}/change/")
    page.fill("[name=every]", "")
    page.fill("[name=cron]", "0 3 * * *")
    page.fill("[name=from]", "2100-01-01T00:00")
    with page.expect_navigation():
        click(browser, "Show the next times")
    assert page.input_value("[name=from]") == "2100-01-01T00:00"
    assert "2100-01-01 03:00:00 UTC" in page.inner_text("#next-times")
    assert "Sessions will be submitted as you:" in page.inner_text("#owner")
    for dark in (False, True):
        browser.look(DESKTOP, dark=dark)
        browser.run(_LOOK_AGAIN)
        browser.keep(f"admin-schedule-{'dark' if dark else 'light'}")
        assert browser.violations_in("#schedule") == []
    browser.look(PHONE)
    browser.keep("admin-schedule-phone")
    assert not browser.run("document.documentElement.scrollWidth > innerWidth")
    with page.expect_navigation():
        click(browser, "Save")
    made.refresh_from_db()
    assert (made.cron, made.every, made.owner == world.owner) == ("0 3 * * *", None, False)
