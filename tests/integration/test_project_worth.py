"""The page that shows what the retries of a project were worth."""

import csv
import io
import re

import pytest
from django.test import Client

from sessions_app.models import Project
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.chains.retry_advice import retries_advise
from sessions_app.services.failures.count import failures_count
from tests import factories
from tests.factories import policy, tip
from tests.integration.test_project_pages import statements
from tests.pages import lead, project, read, signed_in, viewer

__all__ = ["lead", "project", "viewer"]
pytestmark = pytest.mark.django_db(transaction=True)
AT = "/projects/acme/work/worth/"


def chain(project: Project, image: str = "busybox:1", *, succeeds: bool = True) -> None:
    """A chain that is retried once."""
    retried = policy(max_retries=1)
    root = factories.submit(project, image=image, retry_policy=retried)
    factories.settle(factories.start(root))
    retries_dispatch()
    facts = {"exit_code": 0, "status": "terminated"} if succeeds else {}
    factories.settle(factories.start(tip(root)), **facts)


@pytest.fixture
def worth(project: Project) -> None:
    """Two chains that are counted."""
    chain(project)
    chain(project, succeeds=False)
    failures_count()


def test_a_viewer_sees_what_retries_were_worth(
    project: Project, viewer: Client, worth: None
) -> None:
    shown = read(viewer, AT)
    assert "2 chains ended, 2 of them after a retry. 1 recovered" in shown
    assert "1 was given up" in shown
    assert "kernel nonzero exit" in shown
    assert "Wasted run time by cause" in shown
    html = viewer.get(AT).content.decode()
    assert f'href="{AT}" aria-current="page"' in html
    assert retries_advise() == 1
    assert "with one more, 1 chain that gave up would have had another attempt" in read(viewer, AT)
    shown = read(viewer, f"{AT}?by=image&days=7&figure=recovered")
    assert "Recovered chains by image" in shown
    assert "a chain counts under each image that it had" in shown
    assert "busybox:1" in shown
    for by in ("day", "rule", "policy", "queue", "owner", "node", "signature"):
        for figure in ("rescued", "waiting", "given_up", "chains"):
            assert "Ends of chains" in read(viewer, f"{AT}?by={by}&days=365&figure={figure}")


def test_signatures_have_their_titles_and_lead_to_their_failures(
    project: Project, viewer: Client
) -> None:
    title = "the licence server of the cluster is down again"
    failed = factories.settle(factories.start(factories.submit(project)), message=title)
    failures_count()
    key = failed.failure_signature
    html = viewer.get(f"{AT}?by=signature").content.decode()
    assert f'<a href="/projects/acme/work/failures/{key}/">{title}</a>' in html
    (label,) = re.findall(r'<span class="key accent">(the [^<]*)</span>', html)
    assert label == f"{title[:39]}…"
    assert f"failures/{key}" not in viewer.get(AT).content.decode()


def test_the_table_is_a_file(project: Project, viewer: Client, worth: None) -> None:
    html = viewer.get(f"{AT}?by=image&days=7").content.decode()
    address = f"{AT}csv/?days=7&by=image&figure=wasted"
    assert f'href="{address.replace("&", "&amp;")}"' in html
    answer = viewer.get(address)
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    (row,) = csv.DictReader(io.StringIO(answer.content.decode()))
    assert (row["value"], row["chains"], row["recovered_chains"]) == ("busybox:1", "2", "1")


def test_an_empty_project_says_so(project: Project, viewer: Client) -> None:
    shown = read(viewer, AT)
    assert "0 chains ended, 0 of them after a retry." in shown
    assert "Nothing in this time." in shown
    assert "No chain that ended in this time has any." in shown


def test_a_stranger_finds_nothing(project: Project, worth: None) -> None:
    stranger = signed_in(factories.user("sam", project=factories.project("far")))
    assert {stranger.get(each).status_code for each in (AT, f"{AT}csv/")} == {404}


def test_what_nobody_can_ask_for_is_ignored(lead: Client, worth: None) -> None:
    assert "by cause" in read(lead, f"{AT}?days=x&by=colour&figure=all")


def test_the_page_takes_as_many_statements_for_many(
    project: Project, lead: Client, worth: None
) -> None:
    read(lead, f"{AT}?by=image")
    few = statements(lead, f"{AT}?by=image")
    for number in range(5):
        chain(project, f"image:{number}")
    failures_count()
    assert statements(lead, f"{AT}?by=image") == few <= 12
