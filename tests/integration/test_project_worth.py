"""The page that shows what the retries of a project were worth."""

import csv
import io
import re

import pytest
from django.test import Client

from interfaces.web.parts import Chart
from interfaces.web.worth_charts import FIGURES
from sessions_app.models import Project
from sessions_app.selectors import ended_chains
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.chains.retry_advice import retries_advise
from tests import factories
from tests.factories import policy, tip
from tests.integration.test_project_pages import statements
from tests.integration.test_retry_reports import spread
from tests.pages import lead, project, read, signed_in, viewer
from tests.told_log import failures_count

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
    shown = read(viewer, AT)
    assert "with one more, 1 chain that gave up would have had another attempt. Computed" in shown
    shown = read(viewer, f"{AT}?by=image&days=7&figure=recovered")
    assert "Recovered chains by image" in shown
    assert "a chain counts under each image that it had" in shown
    assert "busybox:1" in shown
    for by in ("day", "rule", "policy", "queue", "owner", "node", "signature"):
        for figure in FIGURES:
            assert "Ends of chains" in read(viewer, f"{AT}?by={by}&days=365&figure={figure}")


def drawn(client: Client, query: str) -> tuple[Chart, dict[str, float]]:
    """The chart of the chosen figure, and the sum of each of its series."""
    chart = client.get(f"{AT}?{query}").context["charts"][1]
    return chart, {each.label: sum(each.values) for each in chart.series}


def test_every_figure_of_the_report_has_a_chart(project: Project, viewer: Client) -> None:
    chain(project)
    chain(project, "torch:2", succeeds=False)
    spread(2.0)
    failures_count()
    for figure, value in {"attempts": 2, "retried": 1, "chains": 1}.items():
        _, sums = drawn(viewer, f"by=image&figure={figure}")
        assert sums == {"busybox:1": value, "torch:2": value}
    chart, sums = drawn(viewer, "by=image&figure=run")
    # 14 s and 16 s each.
    assert sums == {name: pytest.approx(30, rel=0.1) for name in ("busybox:1", "torch:2")}
    assert chart.unit == "s"
    for figure, title in {
        "median": "Median time to recover by day",
        "p95": "Time in which 95 % recover by day",
    }.items():
        chart, sums = drawn(viewer, f"by=image&figure={figure}")
        # From the failure after 14 s to the success after 216 s.
        assert sums == {"all": pytest.approx(202 / 60, rel=0.15)}
        assert (chart.title, chart.unit) == (title, "min")


def test_the_filters_of_the_report_are_on_the_page(
    project: Project, viewer: Client, worth: None
) -> None:
    chain(project, "torch:2")
    failures_count()
    assert "3 chains ended" in read(viewer, AT)
    for query, said in {
        "image=torch:2": "1 chain ended",
        "image=torch:2&by=image": "1 chain ended",
        "image=torch:2&by=day": "1 chain ended",
        "image=torch:2&by=queue&cause=kernel_nonzero_exit": "1 chain ended",
        "queue=default&node=node-1": "3 chains ended",
        "owner=nobody": "0 chains ended",
        "rule=team/memory&policy=team&signature=0123456789ab": "0 chains ended",
        "cause=bad-luck": "3 chains ended",
        f"image={'x' * 301}": "3 chains ended",
        "image=a%00b": "3 chains ended",
    }.items():
        assert said in read(viewer, f"{AT}?{query}"), query
    for by in ("image", "queue", "day"):
        _, sums = drawn(viewer, f"image=torch:2&by={by}&figure=chains")
        assert sums == {{"image": "torch:2", "queue": "default", "day": "all"}[by]: 1}
    wrong = viewer.get(f"{AT}?cause=bad-luck&image=torch:2").content.decode()
    assert wrong.count("not understood, so left out") == 1
    assert 'name="image" value="torch:2"' in wrong
    assert "Only attempts that match the filters count" in wrong


def test_filters_are_kept_by_every_choice_and_by_the_file(
    project: Project, viewer: Client, worth: None
) -> None:
    html = viewer.get(f"{AT}?days=7&by=image&figure=run&queue=default").content.decode()
    (form,) = re.findall(r'(?s)<form class="filters".*?</form>', html)
    hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="(\w+)"', form))
    assert hidden == {"days": "7", "by": "image", "figure": "run"}
    assert '<option value="busybox:1">' in form, "what the table has is suggested"
    assert 'href="?days=7&amp;by=image&amp;figure=run"' in form, "show all"
    for kept in ("days=30&amp;by=image&amp;figure=run", "days=7&amp;by=day&amp;figure=run"):
        assert f'href="?{kept}&amp;queue=default"' in html
    path = f"{AT}csv/?days=7&by=image&figure=run&queue=default"
    assert f'href="{path.replace("&", "&amp;")}"' in html
    (row,) = csv.DictReader(io.StringIO(viewer.get(path).content.decode()))
    assert (row["value"], row["attempts"]) == ("busybox:1", "4")
    empty = viewer.get(f"{AT}csv/?by=image&queue=other").content.decode()
    assert list(csv.DictReader(io.StringIO(empty))) == []


def test_filters_that_read_too_much_are_refused_in_words(
    project: Project, viewer: Client, worth: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ended_chains, "MOST", 1)
    for path in (f"{AT}?by=image&queue=default", f"{AT}csv/?by=image&queue=default"):
        answer = viewer.get(path)
        assert answer.status_code == 413
        assert "ask for fewer days" in answer.content.decode()
    assert 'name="queue" value="default"' in viewer.get(path.replace("csv/", "")).content.decode()
    assert "2 chains ended" in read(viewer, f"{AT}?by=queue&queue=default")


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
    assert statements(lead, f"{AT}?by=image") == few <= 11
    assert statements(lead, f"{AT}?by=image&queue=default&cause=kernel_nonzero_exit") <= 11
