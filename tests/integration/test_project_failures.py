"""The failures of a project on its pages."""

import re
from datetime import timedelta
from html import unescape
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client

from sessions_app.models import (
    Breaker,
    FailureSignature,
    Project,
    RetryPolicyRevision,
    Session,
)
from tests import factories
from tests.integration.test_project_pages import statements
from tests.pages import lead, project, read, signed_in, viewer

__all__ = ["lead", "project", "viewer"]
pytestmark = pytest.mark.django_db
AT = "/projects/acme/work/failures/"


@pytest.fixture
def failed(project: Project) -> Session:
    """A session whose failure is counted."""
    session = factories.settle(factories.start(factories.submit(project)), message="disk is full")
    factories.failure(session)
    return session


def test_a_lead_sees_where_it_fails_and_mutes_it(
    project: Project, lead: Client, failed: Session
) -> None:
    shown = read(lead, AT)
    assert "disk is full" in shown
    assert "image busybox:1 node node-1 queue default" in shown
    for order, label in (("", "Failed"), ("?order=chains", "Chains")):
        html = lead.get(AT + order).content.decode()
        assert re.findall(r">(\w+) <span aria-hidden=\"true\">↓", html) == [label]
    path = f"{AT}{failed.failure_signature}/"
    for text in ("disk is full", "1 failed attempt of 1 chain", "node-1"):
        assert text in read(lead, path)
    answer = lead.post(path, {"mute": "1"}, follow=True)
    assert "Muted: the list leaves it out." in answer.content.decode()
    assert "disk is full" not in read(lead, AT)
    assert "disk is full" in read(lead, f"{AT}?muted=1&days=7&order=last_seen")
    lead.post(path, {"mute": "0"})
    assert not FailureSignature.objects.get().muted
    assert "disk is full" in read(lead, AT)


def test_the_list_can_begin_with_the_newest_kind(
    project: Project, lead: Client, failed: Session
) -> None:
    known = FailureSignature.objects.get()
    factories.failure(failed, key="0123456789ab", title="only since an hour")
    known.first_seen -= timedelta(days=1)
    known.last_seen += timedelta(minutes=1)
    known.save()
    for order, titles in (("first_seen", 1), ("last_seen", -1)):
        html = read_html(lead, f"{AT}?order={order}")
        shown = re.findall(r">(disk is full|only since an hour)<", html)
        assert shown == ["only since an hour", "disk is full"][::titles]
        assert f'href="?days=1&amp;order={order}" title="Newest first by:' in html


def test_rows_of_one_title_show_their_exit_codes(project: Project, lead: Client) -> None:
    for code in (2, 3):
        session = factories.start(factories.submit(project))
        session = factories.settle(session, message="disk is full", exit_code=code)
        factories.failure(session, exit_code=code)
    shown = read(lead, AT)
    for code in (2, 3):
        assert f"disk is full kernel nonzero exit, exit code {code}" in shown
    key = FailureSignature.objects.get(exit_code=3).key
    assert "kernel nonzero exit, exit code 3" in read(lead, f"{AT}{key}/")


def test_a_failure_shows_its_newest_sessions(project: Project, viewer: Client) -> None:
    gpu = factories.queue(project, "gpu").name
    retried = factories.policy(max_retries=1)
    for number in range(11):
        session = factories.submit(
            project,
            queue=gpu,
            name=f"run-{number}",
            image=f"train:{number}",
            retry_policy=retried,
        )
        failed = factories.settle(factories.start(session, "east"), message="disk is full")
    other = factories.submit(project, name="run-other")
    factories.settle(factories.start(other), message="no licence")
    factories.failure(failed)
    far = factories.submit(factories.project("far"), name="run-far")
    factories.settle(factories.start(far), message="disk is full")
    path = f"{AT}{failed.failure_signature}/"
    html = read_html(viewer, path)
    names = [f"run-{number}" for number in range(10, 0, -1)]
    assert re.findall(r">(run-\w+)</a>", html) == names
    assert f'href="/sessions/{failed.pk}/"' in html
    shown = " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())
    row = f"run-10 {str(failed.pk)[:13]} 1 ERROR scheduled east / node-1 train:10 gpu"
    assert row in shown


def test_the_page_of_a_failure_takes_as_many_statements_for_many(
    project: Project, lead: Client, failed: Session
) -> None:
    path = f"{AT}{failed.failure_signature}/"
    few = statements(lead, path)
    for _ in range(3):
        started = factories.start(factories.submit(project, image="train:2"))
        factories.settle(started, message="disk is full")
    assert statements(lead, path) == few <= 13


def test_the_page_of_a_session_leads_there(project: Project, lead: Client, failed: Session) -> None:
    shown = read(lead, f"/sessions/{failed.pk}/")
    assert "disk is full" in shown
    page = lead.get(f"/sessions/{failed.pk}/").content.decode()
    assert f'href="{AT}{failed.failure_signature}/"' in page


def test_a_rule_is_made_of_it(project: Project, lead: Client, failed: Session) -> None:
    key = failed.failure_signature
    address = f"/projects/acme/work/policies/new/?signature={key}"
    assert f'href="{address}"' in lead.get(f"{AT}{key}/").content.decode()
    text = area(read_html(lead, address))
    saved = lead.post(address, {"text": text, "act": "save"}, follow=True)
    assert "Revision 1 of known-failures decides from now on" in saved.content.decode()
    other = read_html(lead, "/projects/acme/work/policies/new/?signature=<b>")
    assert "onSignatures" not in other


def test_a_second_rule_goes_into_the_same_policy(
    project: Project, lead: Client, failed: Session
) -> None:
    new = "/projects/acme/work/policies/new/?signature="
    first = failed.failure_signature
    shown = read_html(lead, f"{new}{first}")
    assert "# disk is full" in shown
    lead.post(f"{new}{first}", {"text": area(shown), "act": "save"})
    for key, said in (("0123456789ab", "Revision 2 of known"), (first, "Nothing was changed")):
        answer = lead.get(f"{new}{key}", follow=True)
        assert answer.redirect_chain[-1][0] == (
            f"/projects/acme/work/policies/at/known-failures/?signature={key}"
        )
        html = answer.content.decode()
        (revision,) = set(re.findall(r'name="revision" value="(\d*)"', html))
        path = "/projects/acme/work/policies/at/known-failures/"
        sent = {"text": area(html), "act": "save", "revision": revision}
        assert said in lead.post(path, sent, follow=True).content.decode()
    rules = RetryPolicyRevision.objects.latest("revision").document["spec"]["rules"]
    assert [rule["onSignatures"] for rule in rules] == [["0123456789ab"], [first]]


def test_signatures_that_look_like_numbers_stay_text(project: Project, lead: Client) -> None:
    for key in ("123456789012", "12345678e901"):
        answer = lead.get(f"/projects/acme/work/policies/new/?signature={key}", follow=True)
        path, html = answer.request["PATH_INFO"], answer.content.decode()
        (revision,) = set(re.findall(r'name="revision" value="(\d*)"', html))
        lead.post(path, {"text": area(html), "act": "save", "revision": revision})
    rules = RetryPolicyRevision.objects.latest("revision").document["spec"]["rules"]
    assert [rule["onSignatures"] for rule in rules] == [["12345678e901"], ["123456789012"]]


def test_a_rule_gets_a_name_that_is_free(project: Project, lead: Client, failed: Session) -> None:
    factories.named_policy("known-failures", defaultAction="Fail")
    key = failed.failure_signature
    address = f"/projects/acme/work/policies/new/?signature={key}"
    text = area(read_html(lead, address))
    saved = lead.post(address, {"text": text, "act": "save"}, follow=True)
    assert f"Revision 1 of failure-{key} decides" in saved.content.decode()


def area(html: str) -> str:
    (text,) = re.findall(r"<textarea[^>]*>(.*?)</textarea>", html, re.DOTALL)
    return unescape(text)


def read_html(client: Client, path: str) -> str:
    return str(client.get(path).content.decode())


def test_one_that_is_not_counted_yet_leads_to_its_sessions(project: Project, lead: Client) -> None:
    answer = lead.get(f"{AT}0123456789ab/")
    assert answer.status_code == 302
    query = parse_qs(urlsplit(answer["Location"]).query)
    assert (query["project"], query["signature"]) == (["acme/work"], ["0123456789ab"])


def test_a_viewer_looks_and_a_stranger_does_not(
    project: Project, viewer: Client, failed: Session
) -> None:
    path = f"{AT}{failed.failure_signature}/"
    assert "Mute" not in read(viewer, path)
    assert viewer.post(path, {"mute": "1"}).status_code == 403
    stranger = signed_in(factories.user("sam", project=factories.project("far")))
    assert {stranger.get(each).status_code for each in (AT, path)} == {404}
    assert not FailureSignature.objects.get().muted


@pytest.mark.parametrize("query", ["?days=x&order=y&from=z", "?from=1000", "?from=99999999999"])
def test_what_nobody_can_ask_for_is_ignored(lead: Client, failed: Session, query: str) -> None:
    assert lead.get(AT + query).status_code == 200


def test_the_list_is_filtered_without_a_script(
    project: Project, viewer: Client, failed: Session
) -> None:
    other = factories.settle(
        factories.start(factories.submit(project, queue=factories.queue(project, "gpu").name)),
        message="no licence",
    )
    factories.failure(other, image="train:2", cause="image_pull_failure")

    def listed(query: str) -> set[str]:
        shown = re.sub(r"(?s)<form.*?</form>", "", read_html(viewer, f"{AT}?{query}"))
        return {title for title in ("disk is full", "no licence") if title in shown}

    both = {"disk is full", "no licence"}
    cause = failed.retry_cause
    for query, found in {
        "": both,
        f"cause={cause}": {"disk is full"},
        "cause=IMAGE_PULL_FAILURE": {"no licence"},
        "queue=gpu": {"no licence"},
        "queue=default": {"disk is full"},
        "image=train:2": {"no licence"},
        "node=node-1": both,
        "node=node-2": set(),
        f"queue=gpu&cause={cause}": set(),
        "queue=gpu&node=node-2": {"no licence"},
        "cause=bad-luck": both,
        f"image={'x' * 301}": both,
        "image=a%00b": both,
    }.items():
        assert listed(query) == found, query
    assert "No failure of this time matches." in read(viewer, f"{AT}?node=node-2")


def test_the_filter_keeps_the_order_and_the_time(
    project: Project, viewer: Client, failed: Session
) -> None:
    html = read_html(viewer, f"{AT}?queue=default&days=7&order=chains&muted=1")
    (form,) = re.findall(r'(?s)<form class="filters".*?</form>', html)
    assert 'method="get"' in form
    hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="(\w+)"', form))
    assert hidden == {"days": "7", "order": "chains", "muted": "1"}
    assert 'name="queue" value="default"' in form
    assert '<option value="node-1">' in form, "what the list has is suggested"
    assert 'href="?days=7&amp;order=chains&amp;muted=1"' in form, "show all"
    for kept in ("days=30&amp;order=chains", "days=7&amp;order=last_seen"):
        assert f"?{kept}&amp;muted=1&amp;queue=default" in html
    two = read_html(viewer, f"{AT}?queue=default&image=busybox:1&cause=bad-luck")
    assert "left out: only one of the three can be given" in two
    assert "not understood, so left out" in two
    assert 'name="image" value="busybox:1"' in two, "it stays in the form"


def test_a_lead_closes_an_open_breaker(project: Project, lead: Client, viewer: Client) -> None:
    assert "Open breakers" not in read(lead, AT)
    breaker = factories.breaker(project, reason="the licence server is down")
    far = factories.breaker(factories.project("far"), signature="ba9876543210")
    whole = Breaker.objects.create(scope="cluster", signature="fedcba987654", state="open")
    for client in (lead, viewer):
        shown = read(client, AT)
        assert "this project 0" in shown
        assert "the licence server is down" in shown
        assert "all projects 0" in shown
        assert far.signature not in shown
    assert lead.get(AT).content.count(b'name="breaker"') == 1
    assert b'name="breaker"' not in viewer.get(AT).content
    assert viewer.post(AT, {"breaker": str(breaker.pk)}).status_code == 403
    assert lead.post(AT, {"breaker": str(whole.pk)}).status_code == 403
    for gone in (str(far.pk), "", "x"):
        assert lead.post(AT, {"breaker": gone}).status_code == 404
    assert set(Breaker.objects.values_list("state", flat=True)) == {"open"}
    answer = lead.post(AT, {"breaker": str(breaker.pk)}, follow=True)
    assert "The breaker is closed: what it held goes on." in answer.content.decode()
    breaker.refresh_from_db()
    assert (breaker.state, breaker.closed_by) == ("closed", "lea")


def test_the_page_of_a_failure_opens_and_closes_its_breaker(
    project: Project, lead: Client, viewer: Client, failed: Session
) -> None:
    path = f"{AT}{failed.failure_signature}/"
    factories.breaker(project, reason="of another failure")
    assert "of another failure" not in read(lead, path)
    assert b'name="open"' not in viewer.get(path).content
    assert viewer.post(path, {"open": "1"}).status_code == 403
    answer = lead.post(path, {"open": "1"}, follow=True)
    assert "The breaker is open: retries after this failure wait." in answer.content.decode()
    breaker = Breaker.objects.get(signature=failed.failure_signature)
    assert (breaker.state, breaker.project, breaker.opened_by) == ("open", project, "lea")
    for client in (lead, viewer):
        assert "opened on the page" in read(client, path)
        assert b'name="open"' not in client.get(path).content
    assert "is open already" in lead.post(path, {"open": "1"}, follow=True).content.decode()
    assert viewer.post(path, {"breaker": str(breaker.pk)}).status_code == 403
    answer = lead.post(path, {"breaker": str(breaker.pk)}, follow=True)
    assert "The breaker is closed: what it held goes on." in answer.content.decode()
    assert answer.redirect_chain[-1][0].startswith(path)
    breaker.refresh_from_db()
    assert breaker.state == "closed"


def test_what_can_have_no_breaker_offers_none(
    project: Project, lead: Client, failed: Session
) -> None:
    lead.post(f"{AT}{failed.failure_signature}/", {"mute": "1"})
    lost = factories.failure(failed, key="0123456789ab", cause="agent_transient")
    for key in (failed.failure_signature, lost.key):
        assert b'name="open"' not in lead.get(f"{AT}{key}/").content
        answer = lead.post(f"{AT}{key}/", {"open": "1"}, follow=True)
        assert "this failure can have no breaker" in answer.content.decode()
    assert not Breaker.objects.exists()


def test_the_page_takes_as_many_statements_for_many_breakers(
    project: Project, lead: Client
) -> None:
    factories.breaker(project)
    read(lead, AT)
    few = statements(lead, AT)
    for number in range(5):
        factories.breaker(project, signature=f"00000000000{number}")
    assert statements(lead, AT) == few


def test_the_list_takes_as_many_statements_for_many(
    project: Project, lead: Client, failed: Session
) -> None:
    read(lead, AT)
    few = statements(lead, AT)
    for number in range(5):
        factories.failure(failed, key=f"other{number}")
    assert statements(lead, AT) == few
