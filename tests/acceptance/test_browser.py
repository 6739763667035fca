"""The pages in a real browser: what they look like, and what they do by themselves."""

import json
from itertools import product

import pytest
from django.contrib.auth.models import User
from pytest_django.live_server_helper import LiveServer

from sessions_app.core.states import Status
from sessions_app.models import LogChunk, Project, Session
from sessions_app.services.chains.dispatch import retries_dispatch
from tests import factories
from tests.acceptance.browsing import DESKTOP, PHONE, Browser, sign_in
from tests.waiting import until

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def project() -> Project:
    return factories.project("vision")


@pytest.fixture
def owner(project: Project) -> User:
    return factories.user("olga", project=project)


def ended_chain(project: Project, owner: User) -> list[Session]:
    """Three attempts that ran and failed; the last one was the last allowed."""
    policy = {"max_retries": 2, "retry_delay": 0.001, "jitter": "none"}
    chain = [factories.submit(project, owner=owner, name="train-" + "x" * 90, retry_policy=policy)]
    while True:
        factories.start(chain[-1])
        factories.settle(chain[-1], exit_code=137, message="m" * 900)
        if len(chain) == 3:
            return chain
        until(lambda: retries_dispatch().dispatched, "the retry comes due")
        chain.append(Session.objects.get(parent=chain[-1]))


_WIDER_THAN_THE_SCREEN = "document.documentElement.scrollWidth > innerWidth"
_UNREACHED = """[...document.querySelectorAll('main a, main button, main summary')]
    .filter((node) => node.tabIndex < 0 || !node.textContent.trim()).length"""
_BARS = """[...document.querySelectorAll('.timeline rect.running')].map((bar) => {
    const {left, width} = bar.getBoundingClientRect(); return [left, width]; })"""
_MARKS = """(() => {
    const left = (selector, edge) => [...document.querySelectorAll(selector)].map(
        (node) => edge(node, node.getBoundingClientRect()));
    const grid = left('.timeline li:first-child .grid', (_, box) => box.left);
    const text = left('.axis text', (node, box) => ({
        start: box.left, middle: (box.left + box.right) / 2, end: box.right,
    })[node.getAttribute('text-anchor')]);
    return [grid, text]; })()"""
_CONTRAST = """(() => {
    const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
    const rgb = (color) => {
        canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const light = (color) => {
        const [r, g, b] = rgb(color).map((part) => {
            const share = part / 255;
            return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ground = (node) => {
        const color = getComputedStyle(node).backgroundColor;
        return rgb(color)[3] || !node.parentElement ? color : ground(node.parentElement);
    };
    const faint = [];
    for (const node of document.querySelectorAll('body *:not(.unseen):not(.skip):not(svg *)')) {
        const written = [...node.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
        if (!written || !node.getClientRects().length || node.closest('.unseen, option')) continue;
        const pair = [light(getComputedStyle(node).color), light(ground(node))];
        const ratio = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
        if (ratio < 4.5) faint.push([node.outerHTML.slice(0, 80), ratio]);
    }
    return faint;
})()"""


def test_every_page_fits_its_screen_and_can_be_read(
    browser: Browser, live_server: LiveServer, project: Project, owner: User
) -> None:
    """On a desktop and a phone, in light and dark."""
    tip = ended_chain(project, owner)[-1]
    factories.submit(project, owner=owner, name="fresh")
    log = "".join(f"{number} {'word ' * 60}\n" for number in range(90)).encode()
    LogChunk.objects.create(session_id=tip.pk, offset=0, data=log)
    browser.open(f"{live_server.url}/login/")
    _can_be_read(browser, "/login/")
    sign_in(browser, live_server, owner)
    _can_be_read(browser, "/")
    browser.open(f"{live_server.url}/sessions/{tip.pk}/")
    browser.run("document.querySelectorAll('details').forEach((d) => d.open = true)")
    _can_be_read(browser, "the session")


def _can_be_read(browser: Browser, page: str) -> None:
    """In each size and scheme, all of it."""
    for size, dark in product((DESKTOP, PHONE), (False, True)):
        browser.look(size, dark=dark)
        shown = (page, size, dark)
        assert not browser.run(_WIDER_THAN_THE_SCREEN), shown
        assert browser.run(_UNREACHED) == 0, shown
        assert browser.run(_CONTRAST) == [], shown
        browser.keep(f"{page.strip('/') or 'home'}-{size[0]}-{'dark' if dark else 'light'}")


def test_the_timeline_is_to_scale(
    browser: Browser, live_server: LiveServer, project: Project, owner: User
) -> None:
    chain = ended_chain(project, owner)
    sign_in(browser, live_server, owner, f"/sessions/{chain[0].pk}/")
    bars = browser.run(_BARS)
    ran = [
        (s.started_at.timestamp(), s.finished_at.timestamp())
        for s in Session.objects.filter(root=chain[0].pk).order_by("retry_count")
        if s.started_at and s.finished_at
    ]
    assert len(bars) == len(ran) == 3
    (first, _), (last, _) = bars[0], bars[2]
    middle = (ran[1][0] - ran[0][0]) / (ran[2][0] - ran[0][0])
    assert bars[1][0] == pytest.approx(first + middle * (last - first), abs=10)
    lines, texts = browser.run(_MARKS)
    assert len(lines) >= 2
    assert texts == pytest.approx(lines, abs=2)


def test_a_page_follows_its_chain_and_disturbs_nobody(
    browser: Browser, live_server: LiveServer, project: Project, owner: User
) -> None:
    policy = {"max_retries": 1, "retry_delay": 3600.0, "jitter": "none"}
    session = factories.submit(project, owner=owner, retry_policy=policy)
    browser.look((1280, 500))
    sign_in(browser, live_server, owner, f"/sessions/{session.pk}/")
    browser.run("document.querySelector('#events').open = true")
    browser.run("document.querySelector('#policy > summary').focus()")
    browser.run("scrollTo(0, 120)")
    factories.settle(session)
    browser.wait("document.querySelector('.outlook').textContent.includes('Retry in')")
    shown = "document.querySelector('.outlook time').textContent"
    before = browser.run(shown)
    browser.wait(f"{shown} !== {json.dumps(before)}")
    assert browser.run("document.querySelector('#events').open")
    assert browser.run("document.activeElement.parentElement.id") == "policy"
    assert browser.run("scrollY") == 120
    assert "ERROR, attempt 1; 0 of 1 retries for failures used" in browser.run(
        "document.querySelector('#announce').textContent"
    )


def test_cancel_is_reached_by_keyboard(
    browser: Browser, live_server: LiveServer, project: Project, owner: User
) -> None:
    session = factories.submit(project, owner=owner)
    sign_in(browser, live_server, owner, f"/sessions/{session.pk}/")
    for _ in range(20):
        browser.press("Tab")
        outline = browser.run("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", browser.run("document.activeElement.outerHTML")
        if browser.run("document.activeElement.id") == "cancel":
            break
    browser.press("Enter")
    browser.wait("document.querySelector('.messages')?.textContent.includes('cancelled')")
    session.refresh_from_db()
    assert session.status == Status.CANCELLED


def test_reading_needs_no_javascript(
    browser: Browser, live_server: LiveServer, project: Project, owner: User
) -> None:
    tip = ended_chain(project, owner)[-1]
    browser.renew(javascript=False)
    sign_in(browser, live_server, owner)
    browser.open(f"{live_server.url}/sessions/{tip.pk}/")
    text = browser.page.locator("body").inner_text()
    assert "attempt 3; 2 of 2 retries for failures used" in text
    assert "Gave up" in text
    assert "so none is left" in text


def test_graphiql_works_without_any_other_server(
    browser: Browser, live_server: LiveServer, project: Project, owner: User
) -> None:
    factories.submit(project, owner=owner, name="shown")
    sign_in(browser, live_server, owner, "/graphql/")
    browser.wait("document.querySelector('.graphiql-execute-button') !== null")
    # What it asks about the schema came back, which the pane of documents tells.
    browser.run("document.querySelector('[aria-label=\"Show Documentation Explorer\"]').click()")
    browser.wait("document.body.innerText.includes('Root Types')")
    browser.run("document.querySelector('.graphiql-execute-button').click()")
    browser.wait("document.querySelector('.result-window').innerText.includes('shown')")
    loaded = browser.run("performance.getEntriesByType('resource').map((each) => each.name)")
    assert loaded
    assert all(name.startswith((live_server.url, "data:")) for name in loaded), loaded
    browser.keep("graphiql")
