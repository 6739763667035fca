"""Every part of pages in every state, in a real browser."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from pytest_django.live_server_helper import LiveServer

from interfaces.web.style_moments import MOMENTS
from tests import factories
from tests.acceptance.browsing import DESKTOP, PHONE, Browser, sign_in

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
OPEN = "document.querySelectorAll('details').forEach((each) => each.open = true)"


@pytest.fixture
def somebody() -> User:
    return factories.user("sam")


def test_parts_are_fit_for_all_in_every_scheme_and_size(
    browser: Browser, live_server: LiveServer, somebody: User, settings: Any
) -> None:
    settings.REPRISE_STYLE_PAGE = True
    sign_in(browser, live_server, somebody, "/style/")
    browser.run(OPEN)
    browser.fit_for_all("style")
    for name in MOMENTS[1:]:
        browser.open(f"{live_server.url}/style/?moment={name}")
        browser.run(OPEN)
        for dark in (False, True):
            browser.look(PHONE if dark else DESKTOP, dark=dark)
            browser.keep(f"style-{name.replace(' ', '-')}-{'dark' if dark else 'light'}")
            assert browser.violations_in("#moments") == [], (name, dark)
        assert not browser.run("document.documentElement.scrollWidth > innerWidth"), name
