"""Debian's chromium, driven by Playwright: one tab, what it complains of, and pictures of it."""

import asyncio
import os
import shutil
from asyncio import AbstractEventLoop
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import axe_playwright_python
import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connections
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import ConsoleMessage, Error, Page, ViewportSize, sync_playwright
from pytest_django.live_server_helper import LiveServer

from tests import factories
from tests.conftest import unavailable
from tests.waiting import PATIENCE_SECONDS, until

DESKTOP, PHONE = (1280, 900), (390, 844)
COLOURS = ("color-contrast", "link-in-text-block")
"""The rules of axe that look at colours."""
PICTURES = Path(settings.BASE_DIR) / "build/screenshots"
"""Pictures of pages are kept here, if somebody wants to look at them after the run."""
PICTURES_WANTED = os.environ.get("REPRISE_TEST_PICTURES") == "1"
"""To take one costs more than to load the page."""
_FLAGS = ["--disable-dev-shm-usage", "--disable-quic"]
_AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
_TOLD = """.then((found) => found.violations.map(
    (each) => [each.id, each.nodes.map((node) => node.html.slice(0, 120))]))"""
_RUN_AXE = f"(options) => axe.run(document, options){_TOLD}"
_RUN_AXE_IN = f"(selector) => axe.run(selector){_TOLD}"


class Browser:
    """One tab of a headless Chromium."""

    def __init__(self, chromium: Chromium):
        self._chromium = chromium
        self.page: Page
        self.problems: list[str] = []
        """Uncaught exceptions and errors of the console."""
        self.asked: list[str] = []
        """The addresses of all requests."""
        self.renew()

    def renew(self, *, javascript: bool = True) -> None:
        """Take a tab with no cookies, in the place of the one before."""
        context = self._chromium.new_context(java_script_enabled=javascript)
        context.set_default_timeout(PATIENCE_SECONDS * 1000)
        self.page = context.new_page()
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", self._notice)
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.look(DESKTOP)

    def close(self) -> None:
        """Close all tabs, and forget their cookies."""
        for context in self._chromium.contexts:
            context.close()

    def _notice(self, message: ConsoleMessage) -> None:
        if message.type == "error" or "Permissions-Policy" in message.text:
            self.problems.append(message.text)

    def run(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page."""
        return self.page.evaluate(expression)

    def wait(self, expression: str) -> Any:
        """Wait until an expression holds, and return its value."""
        return until(lambda: self._tried(expression), expression)

    def _tried(self, expression: str) -> Any:
        self.page.wait_for_timeout(20)
        try:
            return self.page.evaluate(expression)
        except Error:  # the page went away meanwhile
            return None

    def open(self, url: str) -> None:
        """Load a page to its end."""
        self.page.goto(url)

    def look(self, size: tuple[int, int], *, dark: bool = False) -> None:
        """Choose a width, a height and the scheme of colours."""
        self.page.set_viewport_size(ViewportSize(width=size[0], height=size[1]))
        self.page.emulate_media(color_scheme="dark" if dark else "light")

    def press(self, key: str) -> None:
        """Press and release a key."""
        self.page.keyboard.press(key)

    def write(self, text: str) -> None:
        """Type text where the focus is."""
        self.page.keyboard.insert_text(text)

    def keep(self, name: str) -> None:
        """Keep a picture of the whole page, if pictures are wanted."""
        if not PICTURES_WANTED:
            return
        PICTURES.mkdir(parents=True, exist_ok=True)
        path = PICTURES / f"{name}.png"
        self.page.screenshot(path=path, full_page=True, animations="disabled")

    def violations(self, *rules: str) -> list[Any]:
        """Return the rules of axe that the page breaks, of these or of all, with the places."""
        self.page.evaluate(f"{_AXE}; 0")
        options = {"runOnly": list(rules)} if rules else {}
        found: list[Any] = self.page.evaluate(_RUN_AXE, options)
        return found

    def violations_in(self, selector: str) -> list[Any]:
        """Return the rules of axe that a part of the page breaks, with the places."""
        self.page.evaluate(f"{_AXE}; 0")
        found: list[Any] = self.page.evaluate(_RUN_AXE_IN, selector)
        return found

    def fit_for_all(self, name: str) -> None:
        """Keep pictures of the page in each size and scheme; nothing is wrong in any of them."""
        for size in (DESKTOP, PHONE):
            for dark in (False, True):
                self.look(size, dark=dark)
                self.keep(f"{name}-{size[0]}-{'dark' if dark else 'light'}")
                # The schemes differ in nothing but their colours.
                assert self.violations(*(COLOURS if dark else ())) == [], (name, size, dark)
            assert not self.run("document.documentElement.scrollWidth > innerWidth"), (name, size)
        self.look(DESKTOP)


def asked_elsewhere(browser: Browser, server: LiveServer) -> list[str]:
    """Return the requests that did not go to the server."""
    return [url for url in browser.asked if not url.startswith((server.url, "data:", "about:"))]


@contextmanager
def _running(loop: AbstractEventLoop | None) -> Iterator[None]:
    """While this event loop is the one that runs in this thread, or none is."""
    before = asyncio._get_running_loop()
    asyncio._set_running_loop(loop)
    try:
        yield
    finally:
        asyncio._set_running_loop(before)


@pytest.fixture(scope="session")
def chromium() -> Iterator[tuple[Chromium, AbstractEventLoop]]:
    """One browser for all tests, and the event loop that Playwright runs in this thread.

    Other tests would find that loop, too: it is shown only to those that have a tab.
    """
    # Without windows of its own it takes half of the processor.
    binary = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if binary is None:
        unavailable("needs Debian's chromium: apt-get install chromium-headless-shell")
        return
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=binary, args=_FLAGS, chromium_sandbox=False
        )
        loop = asyncio.get_running_loop()
        with _running(None):
            yield launched, loop
        launched.close()


@pytest.fixture
def browser(
    live_server: LiveServer,
    chromium: tuple[Chromium, AbstractEventLoop],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Browser]:
    """A tab that must neither complain nor ask another server for anything."""
    launched, loop = chromium
    # Django takes all code beside a running event loop for asynchronous.
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
    with _running(loop):
        found = Browser(launched)
        try:
            yield found
        finally:
            found.close()
            # Those that the event loop has of its own.
            connections.close_all()
    assert found.problems == []
    assert asked_elsewhere(found, live_server) == []


def sign_in(browser: Browser, server: LiveServer, user: User, path: str = "/") -> None:
    """Sign in as people do, with the keyboard only."""
    browser.open(f"{server.url}/login/?next={path}")
    browser.page.focus("[name=username]")
    browser.write(user.username)
    browser.press("Tab")
    browser.write(factories.PASSWORD)
    browser.press("Enter")
    browser.page.wait_for_url(f"{server.url}{path}")
