"""The pages in a real browser: what they look like, and what they do by themselves.

Chromium is driven over its DevTools protocol through a pair of pipes, which needs no library:
https://chromedevtools.github.io/devtools-protocol/
"""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, Self

import pytest
from django.contrib.auth.models import User
from pytest_django.live_server_helper import LiveServer

from sessions_app.core.states import Status
from sessions_app.models import LogChunk, Project, Session
from sessions_app.services.chains.dispatch import retries_dispatch
from tests import factories
from tests.conftest import unavailable

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

PATIENCE = 60.0
"""Seconds until something that the page should do is believed never to happen."""
DESKTOP, PHONE = (1280, 900), (390, 844)
# The DevTools pipes are file descriptors 3 and 4, by definition.
_LAUNCH = """
import os, sys
reads, writes = int(sys.argv[1]), int(sys.argv[2])
os.dup2(reads, 3), os.dup2(writes, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """One tab of a headless Chromium."""

    def __init__(self, binary: str, profile: Path):
        theirs_in, self._out = _high_pipe()
        self._in, theirs_out = _high_pipe()
        flags = [
            "--headless",
            "--remote-debugging-pipe",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--no-first-run",
            f"--user-data-dir={profile}",
        ]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, str(theirs_in), str(theirs_out), binary, *flags],
            pass_fds=(theirs_in, theirs_out),
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._buffer = b""
        self._number = 0
        self._tab: str | None = None
        self.problems: list[str] = []
        """Uncaught exceptions and errors of the console."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._tab = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol and wait for its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._tab is not None:
            message["sessionId"] = self._tab
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self._number:
            self._notice(answer)
        assert "error" not in answer, (method, answer["error"])
        result: dict[str, Any] = answer["result"]
        return result

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            assert select.select([self._in], [], [], PATIENCE)[0], "the browser is silent"
            piece = os.read(self._in, 65_536)
            assert piece, "the browser went away"
            self._buffer += piece
        text, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(text)
        return message

    def _notice(self, event: dict[str, Any]) -> None:
        if event.get("method") == "Runtime.exceptionThrown":
            self.problems.append(event["params"]["exceptionDetails"]["text"])
        if event.get("method") == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
            self.problems.append(event["params"]["entry"]["text"])

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, (expression, answer["exceptionDetails"])
        return answer["result"].get("value")

    def wait(self, expression: str) -> Any:
        """Wait until an expression holds; its value."""
        return _wait_for(lambda: self.run(expression), expression)

    def open(self, url: str) -> None:
        """Load a page to its end."""
        self.call("Page.navigate", url=url)
        self.wait(f"location.href === {json.dumps(url)} && document.readyState === 'complete'")

    def look(self, size: tuple[int, int], *, dark: bool = False) -> None:
        """Choose a width, a height and the scheme of colours."""
        width, height = size
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=size == PHONE,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def press(self, key: str, code: int) -> None:
        """Press and release a key."""
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **text
            )

    def write(self, text: str) -> None:
        """Type text where the focus is."""
        self.call("Input.insertText", text=text)

    def screenshot(self) -> bytes:
        """The whole page as a PNG."""
        answer = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        return base64.b64decode(answer["data"])


def _high_pipe() -> tuple[int, int]:
    """A pipe whose ends are clear of the descriptors that the browser wants for itself."""
    low = os.pipe()
    high = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in low)
    for end in low:
        os.close(end)
    return high[0], high[1]


def _wait_for(ask: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (found := ask()):
        assert time.monotonic() < deadline, f"never came true: {what}"
        time.sleep(0.05)
    return found


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    binary = shutil.which("chromium")
    if binary is None:
        unavailable("needs chromium: apt-get install chromium")
        return
    with Browser(binary, tmp_path / "profile") as found:
        found.look(DESKTOP)
        yield found
        assert found.problems == []


@pytest.fixture
def project() -> Project:
    return factories.project("vision")


@pytest.fixture
def owner(project: Project) -> User:
    return factories.user("olga", project=project)


def sign_in(browser: Browser, server: LiveServer, user: User, path: str = "/") -> None:
    """Sign in as people do, with the keyboard only."""
    browser.open(f"{server.url}/login/?next={path}")
    browser.run("document.querySelector('[name=username]').focus()")
    browser.write(user.username)
    browser.press("Tab", 9)
    browser.write(factories.PASSWORD)
    browser.press("Enter", 13)
    browser.wait(f"location.pathname === {json.dumps(path)} && document.readyState === 'complete'")


def ended_chain(project: Project, owner: User) -> list[Session]:
    """Three attempts that ran and failed; the last one was the last allowed."""
    policy = {"max_retries": 2, "retry_delay": 0.001, "jitter": "none"}
    chain = [factories.submit(project, owner=owner, name="train-" + "x" * 90, retry_policy=policy)]
    while True:
        factories.start(chain[-1])
        factories.settle(chain[-1], exit_code=137, message="m" * 900)
        if len(chain) == 3:
            return chain
        _wait_for(lambda: retries_dispatch().dispatched, "the retry comes due")
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
        assert browser.screenshot().startswith(b"\x89PNG")


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
        browser.press("Tab", 9)
        outline = browser.run("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", browser.run("document.activeElement.outerHTML")
        if browser.run("document.activeElement.id") == "cancel":
            break
    browser.press("Enter", 13)
    browser.wait("document.querySelector('.messages')?.textContent.includes('cancelled')")
    session.refresh_from_db()
    assert session.status == Status.CANCELLED


def test_reading_needs_no_javascript(
    browser: Browser, live_server: LiveServer, project: Project, owner: User
) -> None:
    tip = ended_chain(project, owner)[-1]
    sign_in(browser, live_server, owner)
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(f"{live_server.url}/sessions/{tip.pk}/")
    text = browser.run("document.body.innerText")
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
    assert browser.screenshot().startswith(b"\x89PNG")
