"""The policies of a project on its pages: editor, revisions, and what a draft would have done."""

from datetime import timedelta
from threading import BoundedSemaphore
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from interfaces.simulate import run
from sessions_app.models import Project, RetryPolicy, Session
from sessions_app.selectors import past_chains
from tests import factories
from tests.pages import STRICT, lead, project, read, signed_in, viewer, words

__all__ = ["lead", "project", "viewer"]
pytestmark = pytest.mark.django_db
AT = "/projects/acme/work/policies/"
GENEROUS = STRICT.replace("action: Fail", "action: Retry\n      retryLimit: 4")


def save(client: Client, text: str, name: str = "", **more: Any) -> Any:
    path = f"{AT}at/{name}/" if name else f"{AT}new/"
    return client.post(path, {"text": text, "act": "save", **more}, follow=True)


def edited(client: Client) -> None:
    """Create the policy, and make a second revision of it."""
    assert save(client, STRICT).status_code == 200
    assert save(client, GENEROUS, "strict", revision="1").status_code == 200


def failed(project: Project, *names: str, exit_code: int = 65, **fields: Any) -> Session:
    session = factories.submit(project, retry_policies=list(names), **fields)
    return factories.settle(factories.start(session), exit_code=exit_code)


class TestEditing:
    def test_a_lead_makes_edits_compares_restores_and_deletes(
        self, project: Project, lead: Client
    ) -> None:
        assert "There are no policies yet." in read(lead, AT)
        edited(lead)
        policy = RetryPolicy.objects.get(name="strict")
        assert (policy.project, policy.revision) == (project, 2)
        assert "strict acme/work 1" in read(lead, AT).replace("project ", "")
        compared = read(lead, f"{AT}at/strict/revisions/2/")
        assert "added and 1 removed" in compared
        old = f"{AT}at/strict/revisions/1/"
        assert lead.post(old, {"seen": "1"}, follow=True).status_code == 200
        assert "Not restored" in words(lead.post(old, {"seen": "1"}, follow=True))
        assert "Revision 3 of strict decides" in words(lead.post(old, {"seen": "2"}, follow=True))
        policy.refresh_from_db()
        texts = list(policy.revisions.order_by("revision").values_list("document", flat=True))
        assert texts[2] == texts[0] != texts[1]
        deleted = lead.post(f"{AT}at/strict/delete/", {"confirmed": "1"}, follow=True)
        assert "The retry policy strict is deleted." in words(deleted)

    def test_an_old_revision_can_be_edited_on(self, lead: Client) -> None:
        edited(lead)
        assert "action: Fail" in read(lead, f"{AT}at/strict/?revision=1")
        assert "action: Retry" in read(lead, f"{AT}at/strict/?revision=77")

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("kind: [", "is not valid YAML"),
            (STRICT.replace("Fail", "Fial"), "spec.rules[0].action (line 7)"),
            (STRICT.replace("strict}", "strict, project: other}"), "metadata.project (line 3)"),
            (STRICT.replace("onExitCodes", "onExitCode"), "(line 8)"),
        ],
    )
    def test_a_mistake_is_told_with_its_line_and_saves_nothing(
        self, lead: Client, text: str, told: str
    ) -> None:
        refused = save(lead, text)
        assert refused.status_code == 400
        assert told in words(refused)
        checked = lead.post(f"{AT}draft/check/", {"text": text}, headers={"HX-Request": "true"})
        assert told in words(checked)
        assert not RetryPolicy.objects.exists()

    def test_an_edit_of_somebody_else_is_not_overwritten(self, lead: Client) -> None:
        edited(lead)
        refused = save(lead, STRICT, "strict", revision="1")
        assert refused.status_code == 400
        assert "not at revision 1 any more" in words(refused)
        assert RetryPolicy.objects.get().revision == 2
        renamed = save(lead, STRICT.replace("strict}", "lax}"), "strict", revision="2")
        assert "metadata.name (line 3): must stay 'strict'" in words(renamed)

    def test_a_policy_in_use_stays(self, project: Project, lead: Client) -> None:
        save(lead, STRICT)
        factories.attach(factories.default_queue(project), "strict")
        assert "strict is in use" in read(lead, f"{AT}at/strict/delete/")
        assert "Not done" in words(lead.post(f"{AT}at/strict/delete/", {}, follow=True))
        assert RetryPolicy.objects.get().archived_at is None

    def test_policies_above_the_project_are_read_there_and_not_saved(self, lead: Client) -> None:
        factories.named_policy("steady")
        path = f"{AT}at/steady/"
        assert f"{path}?of=cluster" in lead.get(AT).content.decode()
        assert lead.get(path).status_code == 404
        assert "You can try changes here" in read(lead, f"{path}?of=cluster")
        before = RetryPolicy.objects.get().revision
        sent = {"text": STRICT.replace("strict}", "steady}"), "revision": before}
        assert lead.post(f"{path}?of=cluster", sent).status_code == 404
        assert lead.post(f"{path}revisions/1/?of=cluster", {"seen": before}).status_code == 404
        assert RetryPolicy.objects.get().revision == before

    def test_a_viewer_may_try_and_not_save(self, lead: Client, viewer: Client) -> None:
        edited(lead)
        assert "Maintainers can save them" in read(viewer, f"{AT}at/strict/")
        assert save(viewer, STRICT, "strict", revision="2").status_code == 403
        assert save(viewer, STRICT.replace("strict}", "more}")).status_code == 403
        assert viewer.post(f"{AT}at/strict/delete/").status_code == 403
        assert viewer.post(f"{AT}at/strict/revisions/1/", {"seen": "2"}).status_code == 403
        tried = viewer.post(f"{AT}at/strict/", {"text": STRICT, "act": "check"})
        assert "It can be saved: 1 rule." in words(tried)
        assert RetryPolicy.objects.get().revision == 2

    def test_a_stranger_finds_nothing(self, lead: Client) -> None:
        edited(lead)
        stranger = signed_in(factories.user("sam"))
        for path in ("", "new/", "at/strict/", "at/strict/revisions/1/", "at/strict/delete/"):
            assert stranger.get(AT + path).status_code == 404
        for path in ("draft/check/", "draft/history/"):
            assert stranger.post(AT + path, {"text": STRICT}).status_code == 404


class TestHistory:
    def tried(self, client: Client, text: str = GENEROUS) -> str:
        sent = client.post(f"{AT}draft/history/", {"text": text}, headers={"HX-Request": "true"})
        assert sent.status_code == 200
        return words(sent)

    def test_it_says_what_it_was_tried_on(self, project: Project, lead: Client) -> None:
        assert "there is nothing to try it on" in self.tried(lead)
        for _ in range(3):
            failed(project)
        text = self.tried(lead)
        assert "No chain of the sample names it. Tried on all 3" in text
        assert "3 not retried → retrying" in text
        assert "retries granted 3" in text
        save(lead, STRICT)
        failed(project, "strict")
        assert "Tried on the 1 chain that name it, of a sample of 4." in self.tried(lead)
        assert "The draft has errors" in self.tried(lead, "kind: x")

    def test_chains_that_name_it_keep_their_other_policies(
        self, project: Project, lead: Client
    ) -> None:
        save(lead, STRICT)
        factories.named_policy("first", project=project, rules=[
            {"name": "never", "action": "Fail", "onExitCodes": {"operator": "In", "values": [65]}}
        ])  # fmt: skip
        failed(project, "first", "strict")
        text = self.tried(lead)
        assert "retries granted 0" in text

    def test_a_sample_has_the_newest_of_each_day_and_no_more(self, project: Project) -> None:
        sessions = [failed(project) for _ in range(4)]
        until = timezone.now() + timedelta(minutes=1)
        how = past_chains.Sampling(days=3, of_a_day=2)
        found = past_chains.chains_sampled(project.pk, until, how)
        assert [_root(each) for each in found] == [each.pk for each in sessions[2:]]
        assert not past_chains.chains_sampled(factories.project("far").pk, until, how)
        later = past_chains.chains_sampled(project.pk, until + timedelta(days=3), how)
        assert later == []
        few = past_chains.Sampling(days=3, of_a_day=9, attempts=2)
        cut = past_chains.chains_sampled(project.pk, until, few)
        assert [_root(each) for each in cut] == [each.pk for each in sessions[:2]]

    def test_it_takes_as_many_statements_for_many_chains(
        self, project: Project, lead: Client
    ) -> None:
        def statements() -> int:
            with CaptureQueriesContext(connection) as captured:
                self.tried(lead)
            return len(captured)

        failed(project)
        statements()
        few = statements()
        for _ in range(9):
            failed(project)
        assert statements() == few <= 9

    def test_too_many_at_once_are_told_to_wait(
        self, project: Project, lead: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        taken = BoundedSemaphore(1)
        taken.acquire()
        monkeypatch.setattr(run, "_SLOTS", taken)
        assert "busy with other simulations" in self.tried(lead)


def _root(chain: past_chains.PastChain) -> UUID:
    assert chain.past.record is not None
    return UUID(chain.past.record.root)


@pytest.mark.parametrize(
    ("path", "most"), [("", 9), ("at/strict/", 12), ("at/strict/revisions/2/", 8)]
)
def test_pages_take_a_fixed_number_of_statements(
    project: Project, lead: Client, path: str, most: int
) -> None:
    edited(lead)

    def statements() -> int:
        lead.get(AT + path)
        with CaptureQueriesContext(connection) as captured:
            assert lead.get(AT + path).status_code == 200
        return len(captured)

    few = statements()
    for number in range(5):
        factories.named_policy(f"more-{number}", project=project)
        queue = factories.queue(project, f"q{number}")
        factories.attach(queue, "strict")
    save(lead, STRICT, "strict", revision="2")
    assert statements() == few <= most
