"""GraphiQL and the docs of REST: for people who are logged in, with nothing from elsewhere."""

import hashlib
import re
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as configured
from django.test import Client

from tests import factories
from tests.graphs import ADDRESS

VENDORED = Path(configured.BASE_DIR) / "interfaces/static/reprise"
DOCS = "/api/v2/docs/"
HTML = {"Accept": "text/html,application/xhtml+xml"}


def test_the_page_is_for_people_who_are_logged_in(settings: Any) -> None:
    browser = Client()
    for address in (ADDRESS, DOCS):
        asked = browser.get(address, headers=HTML)
        assert (asked.status_code, asked["Location"]) == (302, f"/login/?next={address}")
        # A client of the API is told what it lacks, also one that would take a page.
        for client in ({}, {**HTML, "Authorization": "Bearer rpr_wrong"}):
            answer = browser.get(address, headers=client)
            assert answer.status_code == 401
            assert answer["Content-Type"] == "application/problem+json"
    browser.force_login(factories.user())
    assert b"swagger-ui" in browser.get(DOCS, headers=HTML).content
    page = browser.get(ADDRESS, headers=HTML)
    assert page.status_code == 200
    sources = re.findall(r'(?:src|href)="([^"]+)"', page.content.decode())
    assert sources
    assert all(source.startswith("/static/") for source in sources)
    for source in sources:
        file = browser.get(source)
        assert file.status_code == 200
        # Read to its end, it closes itself without the connection of this test.
        assert b"".join(file)
    settings.REPRISE_GRAPHIQL = False
    assert browser.get(ADDRESS, headers=HTML).status_code == 405


@pytest.mark.parametrize("folder", ["graphiql", "htmx"])
def test_the_vendored_files_are_those_that_are_listed(folder: str) -> None:
    text = (VENDORED / folder / "VENDORED.md").read_text()
    listed = dict(re.findall(r"^\| `([^`]+)` .* `([0-9a-f]{64})` \|$", text, re.MULTILINE))
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (VENDORED / folder).iterdir()
        if path.suffix in {".js", ".css"}
    }
    assert found == listed
