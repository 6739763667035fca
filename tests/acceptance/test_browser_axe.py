"""Tests of our pages in a real browser: findings of axe-core, and the policy that stops scripts."""

from pathlib import Path

import pytest
import yaml
from django.contrib.auth.models import User
from pytest_django.live_server_helper import LiveServer

from sessions_app.models import LogChunk, Project
from tests import factories
from tests.acceptance.browsing import DESKTOP, PHONE, Browser, sign_in
from tests.acceptance.test_browser import ended_chain, owner, project

__all__ = ["owner", "project"]
pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

DOCUMENT = Path(__file__).parents[2] / "docs" / "openapi.yaml"
LANDMARKS = ("landmark-unique", "landmark-one-main", "region")
SCRIPT = 'set -e\nfor each in 1 2; do\n  echo "$each"\ndone\n'


def pages(live_server: LiveServer, project: Project, owner: User) -> dict[str, str]:
    tip = ended_chain(project, owner)[-1]
    LogChunk.objects.create(session_id=tip.pk, offset=0, data=b"one\ntwo\n")
    waiting = factories.submit(project, owner=owner, name="fresh")
    return {
        "home": "/",
        "nothing found": "/?search=nobody",
        "ended": f"/sessions/{tip.pk}/",
        "waiting": f"/sessions/{waiting.pk}/",
    }


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_axe_finds_nothing(
    browser: Browser, live_server: LiveServer, project: Project, owner: User, size: tuple[int, int]
) -> None:
    browser.look(size)
    browser.open(f"{live_server.url}/login/")
    assert browser.violations() == []
    sign_in(browser, live_server, owner)
    for name, path in pages(live_server, project, owner).items():
        browser.open(f"{live_server.url}{path}")
        browser.run("document.querySelectorAll('details').forEach((d) => d.open = true)")
        assert browser.violations() == [], name


_DECISIONS = """[...document.querySelectorAll('#attempts td:last-child')].map((cell) => {
    const box = cell.getBoundingClientRect();
    return [cell.textContent.trim().length > 0, box.left >= 0 && box.right <= innerWidth]; })"""


def test_a_phone_shows_the_decisions_of_a_chain(
    browser: Browser, live_server: LiveServer, project: Project, owner: User
) -> None:
    tip = ended_chain(project, owner)[-1]
    browser.look(PHONE)
    sign_in(browser, live_server, owner, f"/sessions/{tip.pk}/")
    assert browser.run(_DECISIONS) == [[True, True]] * 3
    # Without moving anything aside.
    assert not browser.run(
        "(n => n.scrollWidth > n.clientWidth)(document.querySelector('#attempts'))"
    )


def test_a_command_of_several_lines_is_shown_in_lines(
    browser: Browser, live_server: LiveServer, project: Project, owner: User
) -> None:
    session = factories.submit(project, owner=owner, command=["sh", "-c", SCRIPT])
    sign_in(browser, live_server, owner, f"/sessions/{session.pk}/")
    shown = browser.run("document.querySelector('code.command').innerText")
    assert shown == f"sh -c '{SCRIPT}'"


def test_the_policy_stops_and_reports_forbidden_scripts(
    browser: Browser, live_server: LiveServer, owner: User
) -> None:
    """The browser must report complaints, since they fail every test of a page."""
    sign_in(browser, live_server, owner)
    browser.run(
        "(() => { const made = document.createElement('script');"
        " made.textContent = 'window.ran = 1'; document.body.append(made); })()"
    )
    assert browser.run("window.ran") is None
    browser.run("1")
    assert any("Content Security Policy" in each for each in browser.problems)
    browser.problems.clear()


def test_the_pages_of_others_work_under_their_policies(
    browser: Browser, live_server: LiveServer
) -> None:
    """The API's document and GraphiQL: drawn, asked and answered without a complaint."""
    sign_in(browser, live_server, factories.user("root", superuser=True))
    browser.open(f"{live_server.url}/api/v2/docs/")
    operations = sum(
        map(len, yaml.load(DOCUMENT.read_text(), Loader=yaml.CSafeLoader)["paths"].values())
    )
    browser.wait(f"document.querySelectorAll('.opblock-summary').length === {operations}")
    browser.run("document.querySelector('.opblock-summary-control').click()")
    browser.wait("document.querySelector('.opblock-body') !== null")
    assert browser.problems == []
    # Swagger UI's own `main` leaves its heading out.
    assert browser.violations("landmark-unique", "landmark-one-main") == []
    browser.open(f"{live_server.url}/graphql/")
    browser.wait("document.querySelector('.graphiql-execute-button') !== null")
    browser.run("document.querySelector('.graphiql-execute-button').click()")
    browser.wait("document.body.textContent.includes('viewer')")
    assert browser.problems == []
    assert browser.violations(*LANDMARKS) == []
    found = {}
    for path in ("/admin/", "/admin/sessions_app/queue/add/"):
        browser.open(f"{live_server.url}{path}")
        found[path] = browser.violations("landmark-one-main")
    assert not any(found.values()), found
