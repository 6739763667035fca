"""The form of a policy's rules beside its YAML, and the way from a failure to a policy in use."""

import re
from html import unescape
from typing import Any

import pytest
import yaml
from django.test import Client

from interfaces.http.documents import parse_yaml
from sessions_app.models import Project, Queue, RetryPolicy, Session
from tests import factories
from tests.integration.test_project_pages import statements
from tests.pages import lead, project, read, viewer, words

__all__ = ["lead", "project", "viewer"]
AT = "/projects/acme/work/policies/"
HTMX = {"HX-Request": "true"}
TEXT = """\
apiVersion: reprise/v1
kind: RetryPolicy
metadata: {name: strict}
spec:
  retryLimit: 7
  rules:
    - name: bad-input
      action: Fail
      onExitCodes: {operator: In, values: [65]}
      containerName: main
    - name: memory
      action: Retry
      onConditions: [OOMKilled]
      backoff: {initialDelay: 10s, jitterRatio: 0.5}
      resources: {memory: {factor: 1.5, max: 64Gi}}
"""
RULES: list[dict[str, Any]] = yaml.safe_load(TEXT)["spec"]["rules"]


def ask(client: Client, rule: str = "", text: str = TEXT, **sent: Any) -> Any:
    """What the rules of a draft are, or what a button of theirs answers."""
    fields = {f"rule-{name}": value for name, value in sent.items()}
    asked = {"text": text, "rule": rule, **fields}
    return client.post(f"{AT}draft/rules/", asked, headers=HTMX)


def button(answer: Any, act: str, number: int = 0) -> str:
    """The value of the button that does it to a rule."""
    return str(re.findall(rf'value="({act}:[^"]+)"', answer.content.decode())[number])


def filled(answer: Any) -> dict[str, Any]:
    """What the form of a rule has in it."""
    page = answer.context["rules"].fields
    shown = {each.name.removeprefix("rule-"): list(each.chosen) or each.value for each in page}
    return {name: value for name, value in shown.items() if value}


def text_in(answer: Any) -> str:
    """The text that the answer puts into the editor."""
    page = answer.content.decode().partition('id="draft-text" hx-swap-oob="true"')[2]
    (text,) = re.findall(r"<textarea[^>]*>(.*?)<", page, re.DOTALL)
    return unescape(text)


def rules_in(answer: Any) -> list[dict[str, Any]]:
    """The rules of that text."""
    found: list[dict[str, Any]] = yaml.safe_load(text_in(answer))["spec"]["rules"]
    return found


class TestTheForm:
    def test_rules_are_shown_in_words_also_without_javascript(self, lead: Client) -> None:
        factories.named_policy("strict", project=Project.objects.get(), rules=RULES)
        for shown in (read(lead, f"{AT}at/strict/"), words(ask(lead))):
            assert "bad-input do not retry Exit codes 65 also containerName" in shown
            assert "Condition of the pod OOMKilled First delay 10s" in shown
            assert "also backoff.jitterRatio" in shown

    def test_a_rule_is_edited_and_the_rest_of_it_stays(self, lead: Client) -> None:
        form = ask(lead, button(ask(lead), "edit", 1))
        values = filled(form)
        assert (values["conditions"], values["most_memory"]) == (["OOMKilled"], "64Gi")
        kept = button(form, "keep")
        same = ask(lead, kept, **values)
        assert rules_in(same) == RULES
        assert same.headers["HX-Trigger-After-Settle"] == "draft"
        changed = {**values, "limit": "2", "most_memory": "", "causes": ["evicted", "oom_killed"]}
        done = rules_in(ask(lead, kept, **changed))
        assert done[0] == RULES[0]
        assert done[1] == {
            **RULES[1],
            "resources": {"memory": {"factor": 1.5}},
            "onCauses": ["evicted", "oom_killed"],
            "retryLimit": 2,
        }

    def test_rules_are_added(self, lead: Client) -> None:
        asked = {"name": "busy", "action": "Retry", "codes": "2, 75", "delay": "1m", "node": "node"}
        added = ask(lead, "keep:", **asked)
        assert rules_in(added)[2] == {
            "name": "busy",
            "action": "Retry",
            "onExitCodes": {"operator": "In", "values": [2, 75]},
            "backoff": {"initialDelay": "1m"},
            "antiAffinity": {"mode": "node"},
        }
        assert "busy is in the text." in words(added)
        place = {"after": "1", "selector": "capacity-type=on-demand, gpu=a", "executors": "zone=b"}
        moved = ask(lead, "keep:", **{**asked, "name": "moved"}, **place)
        assert rules_in(moved)[-1]["placement"] == {
            "after": 1,
            "nodeSelector": {"capacity-type": "on-demand", "gpu": "a"},
            "executors": {"labels": {"zone": "b"}},
        }

    def test_known_failures_and_the_limits_around_them_have_fields(self, lead: Client) -> None:
        asked = {
            "name": "known",
            "action": "Retry",
            "signatures": "12345678e901 , 123456789012,",
            "categories": "cuda error, 1e3",
            "limit": "3",
            "window": "24h",
            "same": "2",
        }
        added = ask(lead, "keep:", **asked)
        rule = {
            "name": "known",
            "action": "Retry",
            "onSignatures": ["12345678e901", "123456789012"],
            "onFailureCategory": ["cuda error", "1e3"],
            "retryLimit": 3,
            "retryWindow": "24h",
            "stopAfterSame": 2,
        }
        text = text_in(added)
        assert parse_yaml(text.encode())["spec"]["rules"][2] == rule
        shown = ask(lead, text=text)
        assert "Signature 12345678e901, 123456789012" in words(shown)
        assert "Stops after the same failure 2" in words(shown)
        assert "also" not in words(shown).partition("known")[2]
        form = ask(lead, button(shown, "edit", 2), text)
        values = filled(form)
        assert values == {**asked, "signatures": "12345678e901, 123456789012"}
        fewer = {**values, "signatures": "", "window": "", "same": ""}
        kept = parse_yaml(text_in(ask(lead, button(form, "keep"), text, **fewer)).encode())
        for name in ("onSignatures", "retryWindow", "stopAfterSame"):
            rule.pop(name)
        assert kept["spec"]["rules"][2] == rule

    def test_rules_are_moved_and_removed(self, lead: Client) -> None:
        asked = {"name": "busy", "action": "Retry", "codes": "2, 75"}
        up = ask(lead, button(ask(lead), "up"))
        assert rules_in(up) == RULES[::-1]
        gone = ask(lead, button(ask(lead), "remove"))
        assert rules_in(gone) == RULES[1:]
        empty = ask(lead, "keep:", text="kind: RetryPolicy", **asked)
        assert [each["name"] for each in rules_in(empty)] == ["busy"]

    @pytest.mark.parametrize(
        ("sent", "told"),
        [
            ({"codes": "x"}, "rule-codes-error"),
            ({"codes": "0"}, "rule-codes-error"),
            ({"limit": "-1"}, "rule-limit-error"),
            ({"window": "soon"}, "rule-window-error"),
            ({"same": "1"}, "rule-same-error"),
            ({"same": "twice"}, "rule-same-error"),
            ({"signatures": "0123"}, "rule-signatures-error"),
            ({"signatures": ","}, "rule-signatures-error"),
            ({"categories": "a/b"}, "rule-categories-error"),
            ({"delay": "soon"}, "rule-delay-error"),
            ({"memory": "0.5"}, "rule-memory-error"),
            ({"most_memory": "64Gi"}, "rule-memory-error"),
            ({"selector": "spot"}, "rule-selector-error"),
            ({"selector": "a=b", "after": "-1"}, "rule-after-error"),
            ({"after": "1"}, "rule-after-error"),
            ({"executors": "a=b c"}, "rule-executors-error"),
            ({"message": "("}, "rule-message-error"),
            ({"causes": ["lunch"]}, "Select a valid choice"),
            ({"name": "memory"}, "is the name of another rule"),
            ({"name": "x\0"}, "rule-name-error"),
            ({"codes": ""}, "Say when it applies"),
        ],
    )
    def test_a_mistake_is_told_at_its_field_and_changes_nothing(
        self, lead: Client, sent: dict[str, Any], told: str
    ) -> None:
        refused = ask(lead, "keep:", **{"action": "Retry", "codes": "2", **sent})
        assert refused.status_code == 400
        page = refused.content.decode()
        assert told in page
        assert "hx-swap-oob" not in page

    @pytest.mark.parametrize(
        "text", ["kind: [", "spec: 5", "spec: {rules: 5}", "- a", "\0", "a: 1\na: 2"]
    )
    def test_a_text_that_cannot_be_read_has_no_form(self, lead: Client, text: str) -> None:
        assert "as soon as the text can be read" in words(ask(lead, "add", text))

    @pytest.mark.parametrize(
        "rules", ["[5]", "[{onExitCodes: 5}]", "[{onCauses: x, name: []}]", "[{action: {a: b}}]"]
    )
    def test_rules_of_any_shape_can_be_opened(self, lead: Client, rules: str) -> None:
        text = f"spec: {{rules: {rules}}}"
        form = ask(lead, button(ask(lead, text=text), "edit"), text)
        refused = ask(lead, button(form, "keep"), text, action="Retry", codes="3")
        assert refused.status_code in {200, 400}

    @pytest.mark.parametrize("act", ["edit", "keep", "remove", "up"])
    @pytest.mark.parametrize("at", ["0:abc", "9:abc", "x", "-1:abc"])
    def test_a_rule_that_changed_meanwhile_is_left_alone(
        self, lead: Client, act: str, at: str
    ) -> None:
        refused = ask(lead, f"{act}:{at}")
        assert refused.status_code == 400
        assert "The text was changed meanwhile" in words(refused)

    def test_without_javascript_the_page_comes_with_the_new_text(self, lead: Client) -> None:
        factories.named_policy("strict", project=Project.objects.get(), rules=RULES)
        page = lead.get(f"{AT}at/strict/")
        (drawn,) = re.findall(r'name="drawn" value="([^"]*)"', page.content.decode())
        sent = {"drawn": unescape(drawn), "revision": "1", "rule": button(page, "remove")}
        after = lead.post(f"{AT}at/strict/", sent)
        (text,) = re.findall(r"<textarea[^>]*>(.*?)<", after.content.decode(), re.DOTALL)
        assert yaml.safe_load(unescape(text))["spec"]["rules"] == RULES[1:]
        assert 'name="revision" value="1"' in after.content.decode()
        assert RetryPolicy.objects.get().revision == 1

    def test_who_may_read_may_try_and_a_stranger_finds_nothing(self, viewer: Client) -> None:
        assert ask(viewer).status_code == 200
        stranger = Client()
        stranger.force_login(factories.user("sam"))
        assert ask(stranger).status_code == 404


class TestFromAFailureToAPolicy:
    @pytest.mark.parametrize(
        ("facts", "rule"),
        [
            ({"exit_code": 3}, {"onExitCodes": {"operator": "In", "values": [3]}}),
            (
                {"exit_code": 137, "reason": "OOMKilled"},
                {"onConditions": ["OOMKilled"], "resources": {"memory": {"factor": 1.5}}},
            ),
            ({"reason": "Evicted"}, {"onCauses": ["evicted"]}),
        ],
    )
    def test_a_policy_for_such_failures_is_made_used_and_followed(
        self, project: Project, lead: Client, facts: dict[str, Any], rule: dict[str, Any]
    ) -> None:
        failed = factories.settle(factories.start(factories.submit(project)), **facts)
        page = lead.get(f"/sessions/{failed.pk}/")
        assert 'href="/projects/acme/work/"' in page.content.decode()
        (new,) = re.findall(r'href="([^"]*\?for=[^"]*)"', page.content.decode())
        text = lead.get(new).context["rules"].text
        (found,) = yaml.safe_load(text)["spec"]["rules"]
        assert rule.items() <= found.items()
        saved = lead.post(f"{AT}new/", {"text": text, "act": "save"}, follow=True)
        assert "No queue of this project names it" in words(saved)
        name = RetryPolicy.objects.get().name
        asked = lead.get(f"{AT}at/{name}/use/?queue=default")
        assert f"{name}/{found['name']} 1" in words(asked)
        used = lead.post(f"{AT}at/{name}/use/", {"queue": "default"}, follow=True)
        assert f"submitted to default from now on follow {name}" in words(used)
        assert Queue.objects.get(project=project).retry_policies == [name]
        again = factories.settle(factories.start(factories.submit(project)), **facts)
        assert again.retry_state == "scheduled"
        assert Session.objects.get(pk=again.pk).decision.rule == f"{name}/{found['name']}"

    def test_only_who_may_is_led_there(
        self, project: Project, lead: Client, viewer: Client
    ) -> None:
        failed = factories.settle(factories.start(factories.submit(project)), exit_code=3)
        assert "?for=" not in viewer.get(f"/sessions/{failed.pk}/").content.decode()
        fine = factories.settle(
            factories.start(factories.submit(project)), exit_code=0, status="terminated"
        )
        assert "?for=" not in lead.get(f"/sessions/{fine.pk}/").content.decode()
        far = factories.settle(factories.start(factories.submit(factories.project("far"))))
        for key in (far.pk, fine.pk, "x"):
            assert "my-policy" in lead.get(f"{AT}new/?for={key}").context["rules"].text
        factories.named_policy("strict", project=project, rules=RULES)
        assert viewer.post(f"{AT}at/strict/use/", {"queue": "default"}).status_code == 403
        for queue in ("none", "\0"):
            assert lead.post(f"{AT}at/strict/use/", {"queue": queue}).status_code == 404
        assert lead.post(f"{AT}at/none/use/", {"queue": "default"}).status_code == 404

    def test_before_it_is_saved_the_page_says_who_decides_first(
        self, project: Project, lead: Client
    ) -> None:
        """A policy behind one that matches first was dead, and its trial had promised otherwise."""
        any_code = {"operator": "NotIn", "values": [255]}
        wide = {"name": "wide", "action": "Fail", "onExitCodes": any_code}
        three = {"operator": "In", "values": [3]}
        narrow = {"name": "three", "action": "Retry", "onExitCodes": three}
        factories.named_policy("infra", project=project, rules=[wide])
        factories.named_policy("ours", project=project, rules=[narrow])
        Queue.objects.filter(project=project).update(retry_policies=["infra"])
        for _ in range(2):
            factories.settle(factories.start(factories.submit(project)), exit_code=3)
        other = factories.queue(project, "other")
        factories.settle(factories.start(factories.submit(project, queue=other.name)), exit_code=3)
        address = f"{AT}at/ours/use/?queue=default"
        behind = words(lead.get(address))
        assert "The order then: infra, ours " in behind
        assert "three: infra/wide matches before" in behind
        assert "infra/wide 2" in behind
        assert "ours/three 0 (never)" in behind
        before = words(lead.get(f"{address}&after=:first"))
        assert "The order then: ours , infra" in before
        assert "matches before" not in before
        assert "ours/three 2" in before
        sent = {"queue": "default", "after": ":first"}
        saved = lead.post(f"{AT}at/ours/use/", sent, follow=True)
        assert "from now on follow ours, infra" in words(saved)
        assert Queue.objects.get(project=project, is_default=True).retry_policies == [
            "ours",
            "infra",
        ]

    def test_a_place_that_is_gone_is_not_guessed(self, project: Project, lead: Client) -> None:
        factories.named_policy("ours", project=project, rules=RULES)
        asked = lead.post(f"{AT}at/ours/use/", {"queue": "default", "after": "gone"})
        assert "names no policy gone now" in words(asked)
        stale = {"queue": "default", "after": ":first", "version": "0"}
        assert "Not done" in words(lead.post(f"{AT}at/ours/use/", stale))
        assert Queue.objects.get(project=project).retry_policies == []

    def test_the_page_takes_a_fixed_number_of_statements(
        self, project: Project, lead: Client
    ) -> None:
        factories.named_policy("strict", project=project, rules=RULES)
        few = statements(lead, f"{AT}at/strict/")
        for number in range(5):
            factories.queue(project, f"q{number}")
        assert statements(lead, f"{AT}at/strict/") == few
