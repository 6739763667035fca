"""Simulations with breakers and shared budgets: given verdicts, those of now, and the past."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from retry.evidence.termination import Termination
from retry.simulate import ASSUMPTIONS, Draft
from retry.together.assumptions import counted, too_many, unseen
from sessions_app.authorization import Actor
from sessions_app.models import (
    Membership,
    Project,
    Queue,
    RetryBudgetState,
    RetryDecision,
    RetrySettings,
    Session,
)
from sessions_app.models.tenants import Role
from sessions_app.selectors import past_chains
from sessions_app.selectors.sessions import session_get
from sessions_app.services.chains import simulate as service
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.chains.settle import End, sessions_settle
from sessions_app.services.chains.simulate import FromHere, simulate_from
from tests import factories
from tests.agent import Api
from tests.graphs import Graph

PATH = "retry-policies/simulate/"
TEXT = "error: the license server does not answer\n"
BREAKER = {"chains": 3, "window": 600, "probe_after": 60}
BUDGET = {"ratio": 0, "burst": 1, "window": 3600, "over": "fail"}
KINDS = ("held", "held_seconds", "spared_retries", "breakers_opened")


@pytest.fixture
def token(at: Project) -> str:
    return factories.token(factories.user(project=at, role=Role.VIEWER))


@pytest.fixture
def api(token: str) -> Api:
    return Api(token)


def simulated(api: Api, **body: Any) -> Any:
    response = api.post(PATH, body)
    assert response.status_code == 200, response.content
    return json.loads(response.content)


def past(api: Api, **settings: Any) -> Any:
    """What the settings would have done with the chains of the last day."""
    since = (timezone.now() - timedelta(days=1)).isoformat()
    window = {"project": "acme/work", "since": since}
    return simulated(api, history=window, settings=settings)


def outage(
    at: Project, text: str = TEXT, begin: datetime | None = None, **fields: Any
) -> list[Session]:
    """Three chains that failed at 10, 20 and 30 s, again 70 s later, and then went well."""
    policy = factories.policy(max_retries=3, retry_delay=60, jitter="none")
    roots = [factories.submit(at, retry_policy=policy, **fields) for _ in range(3)]
    begin = begin or timezone.now() - timedelta(hours=1)
    for number, root in enumerate(roots):
        for attempt in range(3):
            session = factories.start(factories.tip(root))
            end = Termination(exit_code=1) if attempt < 2 else Termination(status="terminated")
            sessions_settle({session.pk: End(end, log_tail=text)})
            created = begin + timedelta(seconds=10 * number + 70 * attempt)
            ended = created + timedelta(seconds=10)
            times = {"created_at": created, "started_at": created, "finished_at": ended}
            Session.objects.filter(pk=session.pk).update(**times)
            RetryDecision.objects.filter(state="scheduled").update(due_at=begin)
            retries_dispatch()
    return roots


class TestGiven:
    """Given chains, with what other chains have brought about."""

    def asked(self, api: Api, **facts: Any) -> tuple[Any, Any]:
        ends = [{"exit_code": 1, **facts}, {"exit_code": 0, "status": "terminated"}]
        found = simulated(api, retry_policy={"max_retries": 2}, chains=[{"terminations": ends}])
        return found["chains"][0], found["summary"]

    def test_an_open_breaker_holds_the_retry(self, api: Api) -> None:
        chain, summary = self.asked(api, breaker_open=True)
        first = chain["attempts"][0]
        assert (first["action"], first["held_for"], first["held_seconds"]) == (
            "retry", "breaker", None,
        )  # fmt: skip
        assert [each["step"] for each in first["trace"]][-2:] == ["breaker", "decision"]
        assert (chain["outcome"], summary["held"]) == ("succeeded", {"breaker": 1})

    def test_a_spent_budget_postpones_or_ends_it(self, api: Api) -> None:
        chain, summary = self.asked(api, budget_spent="postpone")
        first = chain["attempts"][0]
        assert (first["held_for"], summary["held"]) == ("shared_budget", {"shared_budget": 1})
        assert first["trace"][-2] == {"step": "shared_budget", "result": "held", "scope": "project"}
        chain, summary = self.asked(api, budget_spent="fail")
        assert (chain["outcome"], summary["by_reason"]) == (
            "exhausted", {"shared_budget_spent": 1},
        )  # fmt: skip
        assert "held" not in summary

    @pytest.mark.parametrize("verdict", [{"breaker_open": True}, {"budget_spent": "postpone"}])
    def test_platform_causes_meet_neither(self, api: Api, verdict: dict[str, Any]) -> None:
        chain, _ = self.asked(api, conditions=["Preempted"], **verdict)
        assert "held_for" not in chain["attempts"][0]

    @pytest.mark.parametrize(
        ("facts", "settings", "field", "said"),
        [
            ({"budget_spent": "maybe"}, {}, "chains[0].terminations[0].budget_spent", "postpone"),
            ({"breaker_open": 1}, {}, "chains[0].terminations[0].breaker_open", "bool"),
            ({}, {"breaker": BREAKER}, "settings.breaker", "breaker_open"),
            ({}, {"retry_budget": None}, "settings.retry_budget", "budget_spent"),
            ({}, {"breaker": {"chains": 1}}, "settings.breaker.chains", "2"),
        ],
    )
    def test_refusals_name_the_field(
        self, api: Api, facts: Any, settings: Any, field: str, said: str
    ) -> None:
        chains = [{"terminations": [{"exit_code": 1, **facts}]}]
        response = api.post(PATH, {"chains": chains, "settings": settings})
        assert response.status_code == 400
        assert said in str(response.json()["errors"][field])


class TestPast:
    """The past of a project, chain beside chain."""

    def test_without_rules_nothing_is_said_of_them(self, api: Api, at: Project) -> None:
        outage(at)
        summary = past(api)["summary"]
        assert not set(KINDS) & summary.keys()
        assert summary["assumptions"] == ASSUMPTIONS

    def test_a_proposed_breaker(self, api: Api, at: Project) -> None:
        outage(at)
        found = past(api, breaker=BREAKER)
        summary = found["summary"]
        assert (summary["held"], summary["held_seconds"]) == ({"breaker": 3}, {"breaker": 50.0})
        assert (summary["breakers_opened"], summary["spared_retries"]) == (1, 3)
        assert (summary["added_attempts"], summary["added_run_seconds"]) == (-3, -30.0)
        assert any("probe" in each for each in summary["assumptions"])
        assert [each["outcome"] for each in found["chains"]] == ["succeeded"] * 3
        held = [chain["attempts"][0]["held_seconds"] for chain in found["chains"]]
        assert sorted(held) == [10.0, 20.0, 20.0]

    def test_rules_of_the_project_and_of_its_queue_apply(self, api: Api, at: Project) -> None:
        outage(at)
        RetrySettings.objects.create(project=at, breaker={**BREAKER, "chains": 4})
        assert past(api)["summary"]["held"] == {}
        Queue.objects.filter(project=at).update(breaker=BREAKER)
        assert past(api)["summary"]["held"] == {"breaker": 3}
        Queue.objects.filter(project=at).update(breaker=None)
        assert "held" not in past(api, breaker=None)["summary"]

    def test_generic_and_muted_signatures_open_none(self, api: Api, at: Project) -> None:
        outage(at, text="Killed\n")
        assert past(api, breaker=BREAKER)["summary"]["breakers_opened"] == 0
        root = outage(at)[0]
        assert past(api, breaker=BREAKER)["summary"]["breakers_opened"] == 1
        factories.failure(factories.reread(root), muted=True)
        assert past(api, breaker=BREAKER)["summary"]["breakers_opened"] == 0

    def test_a_budget_that_ends_chains(self, api: Api, at: Project) -> None:
        outage(at)
        summary = past(api, retry_budget=BUDGET)["summary"]
        # All three fail before the first retry is due; then one has all there is.
        assert summary["by_reason"] == {"inline_retry": 3, "shared_budget_spent": 3}
        assert (summary["spared_retries"], summary["added_attempts"]) == (3, -3)
        assert len(summary["changed"]) == 3

    def test_a_budget_that_postpones(self, api: Api, at: Project) -> None:
        outage(at)
        summary = past(api, retry_budget={**BUDGET, "over": "postpone", "window": 60})["summary"]
        assert summary["held"]["shared_budget"] >= 2
        assert (summary["spared_retries"], summary["changed"]) == (0, [])

    def test_graphql_says_the_same(self, token: str, api: Api, at: Project) -> None:
        outage(at)
        sums = past(api, breaker=BREAKER)["summary"]
        since = (timezone.now() - timedelta(days=1)).isoformat()
        asked = """query($history: JSON, $settings: JSON) {
            simulateRetryPolicy(history: $history, settings: $settings) {
                chains { attempts { heldFor heldSeconds } }
                summary { held heldSeconds sparedRetries breakersOpened assumptions } } }"""
        window = {"project": "acme/work", "since": since}
        found = Graph(token).ask(asked, history=window, settings={"breaker": BREAKER})
        told = found["simulateRetryPolicy"]
        assert [told["summary"][name] for name in ("held", "sparedRetries", "assumptions")] == [
            sums["held"], sums["spared_retries"], sums["assumptions"],
        ]  # fmt: skip
        attempts = told["chains"][0]["attempts"]
        assert [each["heldFor"] for each in attempts] == ["breaker", None]

    def test_the_statements_do_not_grow_with_the_chains(self, api: Api, at: Project) -> None:
        def cost() -> int:
            outage(at)
            past(api, breaker=BREAKER, retry_budget=BUDGET)
            with CaptureQueriesContext(connection) as queries:
                past(api, breaker=BREAKER, retry_budget=BUDGET)
            return len(queries)

        assert cost() == cost()


class TestWider:
    """Rules of the cluster and of the domain, which count chains of other projects."""

    ROOMY: ClassVar = {"ratio": 0, "burst": 6, "window": 3600, "over": "postpone"}
    """Room for all retries of one project in an outage, but not for those of two."""

    @pytest.fixture
    def admin(self) -> Api:
        return Api(factories.token(factories.user(superuser=True)))

    @pytest.fixture
    def of_domain(self, at: Project) -> Api:
        return Api(factories.token(factories.user(domain=at.domain, role=Role.VIEWER)))

    @pytest.fixture
    def outages(self, at: Project) -> list[Session]:
        """An outage of three projects, of which one is in another domain. Return the roots of the
        project that simulations are about."""
        begin = timezone.now() - timedelta(hours=1)
        outage(factories.project("sibling"), begin=begin)
        outage(factories.project("far", domain="void"), begin=begin)
        return outage(at, begin=begin)

    def test_a_breaker_of_the_cluster(
        self, api: Api, admin: Api, outages: list[Session], at: Project
    ) -> None:
        RetrySettings.objects.create(breaker={**BREAKER, "chains": 6, "probe_after": 65})
        # It opens at 20 s. The sibling's first chain probes at 85 s, and succeeds 10 s later.
        summary = past(admin)["summary"]
        assert (summary["held"], summary["held_seconds"]) == ({"breaker": 3}, {"breaker": 45.0})
        assert (summary["breakers_opened"], summary["spared_retries"]) == (1, 2)
        found = past(api)
        assert not set(KINDS) & found["summary"].keys()
        assert found["summary"]["assumptions"] == [*ASSUMPTIONS, unseen("cluster")]
        # Six chains of two projects are not enough.
        Session.objects.filter(project__name="far").update(failure_signature="0123456789ab")
        assert past(admin)["summary"]["held"] == {}

    def test_nothing_of_other_projects_is_shown(
        self, admin: Api, outages: list[Session], at: Project
    ) -> None:
        RetrySettings.objects.create(breaker=BREAKER, retry_budget=self.ROOMY)
        found = past(admin)
        own = {
            str(each) for each in Session.objects.filter(project=at).values_list("pk", flat=True)
        }
        shown = {each["session_id"] for chain in found["chains"] for each in chain["attempts"]}
        assert {str(root.pk) for root in outages} <= shown <= own
        summary = found["summary"]
        assert summary["chains"] == len(found["chains"]) == 3
        assert sum(summary["by_reason"].values()) == len(shown) - 3
        assert {each["root"] for each in summary["changed"]} <= own
        assert summary["assumptions"][-1] == counted("cluster")
        text = json.dumps(found)
        others = Session.objects.exclude(project=at).values_list("pk", flat=True)
        assert len(others) == 18
        assert not [each for each in others if str(each) in text]
        assert "sibling" not in text
        assert "far" not in text

    def test_a_budget_of_the_domain(
        self, api: Api, of_domain: Api, admin: Api, outages: list[Session], at: Project
    ) -> None:
        RetrySettings.objects.create(domain=at.domain, retry_budget=self.ROOMY)
        for reader in (of_domain, admin):
            summary = past(reader)["summary"]
            assert summary["held"]["shared_budget"] >= 3
            assert summary["assumptions"][-1] == counted("domain")
        assert past(api)["summary"]["assumptions"] == [*ASSUMPTIONS, unseen("domain")]
        Project.objects.filter(name="sibling").update(domain=factories.domain())
        assert past(of_domain)["summary"]["held"] == {}

    def test_the_cluster_includes_the_domain(
        self, api: Api, of_domain: Api, admin: Api, outages: list[Session], at: Project
    ) -> None:
        RetrySettings.objects.create(breaker=BREAKER)
        budget = {**self.ROOMY, "burst": 3}
        RetrySettings.objects.create(domain=at.domain, retry_budget=budget)
        assert past(admin)["summary"]["held"].keys() == {"breaker", "shared_budget"}
        summary = past(of_domain)["summary"]
        assert summary["held"].keys() == {"shared_budget"}
        assert summary["assumptions"][-2:] == [unseen("cluster"), counted("domain")]
        left_out = [unseen("cluster"), unseen("domain")]
        assert past(api)["summary"]["assumptions"] == [*ASSUMPTIONS, *left_out]

    def test_a_token_for_one_project_sees_one(self, outages: list[Session], at: Project) -> None:
        RetrySettings.objects.create(retry_budget=BUDGET)
        RetrySettings.objects.create(domain=at.domain, retry_budget=BUDGET)
        people = (
            factories.user(superuser=True),
            factories.user(domain=at.domain, role=Role.DOMAIN_ADMIN),
        )
        for who in people:
            summary = past(Api(factories.token(who, project=at)))["summary"]
            assert summary["assumptions"][-2:] == [unseen("cluster"), unseen("domain")]
            assert summary["by_reason"] == {"inline_retry": 6}

    def test_all_roles_in_projects_together_are_none_in_the_domain(
        self, outages: list[Session], at: Project
    ) -> None:
        RetrySettings.objects.create(domain=at.domain, retry_budget=BUDGET)
        who = factories.user(project=at, role=Role.MAINTAINER)
        sibling = Project.objects.get(name="sibling")
        Membership.objects.create(user=who, project=sibling, role=Role.MAINTAINER)
        summary = past(Api(factories.token(who)))["summary"]
        assert summary["assumptions"] == [*ASSUMPTIONS, unseen("domain")]

    def test_other_projects_go_by_their_own_rules(
        self, admin: Api, outages: list[Session], at: Project
    ) -> None:
        """What their own budgets hold leaves room in the one that all share."""
        RetrySettings.objects.create(retry_budget=self.ROOMY)
        assert past(admin)["summary"]["held"]["shared_budget"] >= 3
        for each in Project.objects.exclude(pk=at.pk):
            RetrySettings.objects.create(project=each, retry_budget={**self.ROOMY, "burst": 0})
        assert past(admin)["summary"]["held"] == {}

    def test_the_draft_is_for_the_project_alone(self, admin: Api, outages: list[Session]) -> None:
        """Its retries come after the twelve of the others, which spend all there is."""
        RetrySettings.objects.create(retry_budget={**self.ROOMY, "burst": 12})
        since = (timezone.now() - timedelta(days=1)).isoformat()
        window = {"project": "acme/work", "since": since}
        later = {"max_retries": 1, "retry_delay": 600}
        summary = simulated(admin, history=window, retry_policy=later)["summary"]
        assert (summary["retries"], summary["held"]) == (3, {"shared_budget": 3})

    def test_too_much_for_one_simulation_is_left_out(
        self,
        admin: Api,
        outages: list[Session],
        at: Project,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        RetrySettings.objects.create(retry_budget=self.ROOMY)
        RetrySettings.objects.create(domain=at.domain, retry_budget=self.ROOMY)
        monkeypatch.setattr(service, "MAX_TERMINATIONS", 27)
        assert past(admin)["summary"]["assumptions"][-1] == counted("cluster")
        monkeypatch.setattr(service, "MAX_TERMINATIONS", 26)
        summary = past(admin)["summary"]
        assert summary["assumptions"][-2:] == [too_many("cluster", 26), counted("domain")]
        monkeypatch.setattr(service, "MAX_TERMINATIONS", 9)
        summary = past(admin)["summary"]
        left_out = [too_many("cluster", 9), too_many("domain", 9)]
        assert summary["assumptions"] == [*ASSUMPTIONS, *left_out]
        assert summary["chains"] == 3
        monkeypatch.setattr(service, "MAX_TERMINATIONS", 8)
        since = (timezone.now() - timedelta(days=1)).isoformat()
        window = {"project": "acme/work", "since": since}
        assert admin.post(PATH, {"history": window}).status_code == 413

    @pytest.mark.parametrize("size", [1, 2, 5])
    def test_slices_make_no_difference(
        self,
        admin: Api,
        outages: list[Session],
        size: int,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        RetrySettings.objects.create(breaker=BREAKER, retry_budget=self.ROOMY)
        found = past(admin)
        monkeypatch.setattr(past_chains, "SLICE", size)
        assert past(admin) == found

    def test_the_statements_grow_with_nothing(self, admin: Api, at: Project) -> None:
        def cost() -> int:
            RetrySettings.objects.all().delete()
            for project in (at, factories.project(), factories.project(domain="void")):
                named = factories.named_policy(project=project, defaultAction="Retry")
                outage(project, retry_policies=[named.name])
            RetrySettings.objects.create(breaker=BREAKER, retry_budget=self.ROOMY)
            past(admin)
            with CaptureQueriesContext(connection) as queries:
                past(admin)
            return len(queries)

        assert cost() == cost()

    def test_graphql_says_the_same(self, admin: Api, outages: list[Session]) -> None:
        RetrySettings.objects.create(breaker=BREAKER)
        since = (timezone.now() - timedelta(days=1)).isoformat()
        asked = """query($history: JSON) { simulateRetryPolicy(history: $history) {
            chains { outcome } summary { held assumptions } } }"""
        graph = Graph(factories.token(factories.user(superuser=True)))
        window = {"project": "acme/work", "since": since}
        found = graph.ask(asked, history=window)["simulateRetryPolicy"]
        sums = past(admin)["summary"]
        assert found["summary"] == {name: sums[name] for name in ("held", "assumptions")}
        assert (len(found["chains"]), sums["held"].keys()) == (3, {"breaker"})


def test_the_docs_say_what_wider_rules_do() -> None:
    said = " ".join((Path(__file__).parents[2] / "docs" / "simulate.md").read_text().split())
    for text in (counted("cluster"), unseen("cluster"), too_many("cluster", 100_000)):
        assert text.partition("left out")[2] in said
    assert counted("cluster") in said
    assert unseen("domain").partition(":")[0] in said


def test_the_example_of_the_docs(api: Api, at: Project) -> None:
    text = (Path(__file__).parents[2] / "docs" / "simulate.md").read_text()
    example = yaml.safe_load(text.partition("# storm.yaml\n")[2].partition("```")[0])
    outage(at)
    summary = past(api, **example["spec"]["settings"])["summary"]
    assert (summary["held"], summary["spared_retries"]) == ({"breaker": 3}, 3)
    said = " ".join(text.split())
    for each in summary["assumptions"]:
        assert each in said


class TestFromHere:
    """One chain, whose newest end meets what is open and spent now."""

    def failed(self, at: Project) -> Session:
        session = factories.start(factories.submit(at, retry_policy=factories.policy()))
        sessions_settle({session.pk: End(Termination(exit_code=1), log_tail=TEXT)})
        return factories.reread(session)

    def tried(self, session: Session) -> FromHere:
        actor = Actor(user=factories.user(superuser=True))
        return simulate_from(session_get(actor, session.pk), Draft())

    def held_for(self, session: Session) -> str:
        decision = self.tried(session).attempts[0].decision
        assert decision is not None
        return decision.held_for

    def test_the_breaker_of_its_signature(self, at: Project) -> None:
        session = self.failed(at)
        factories.breaker(at)
        assert self.held_for(session) == ""
        factories.breaker(at, signature=session.failure_signature)
        assert self.held_for(session) == "breaker"

    def test_an_attempt_that_has_begun_was_not_held(self, at: Project) -> None:
        session = self.failed(at)
        RetryDecision.objects.update(due_at=timezone.now() - timedelta(seconds=1))
        assert retries_dispatch().dispatched == 1
        factories.breaker(at, signature=session.failure_signature)
        assert self.held_for(session) == ""

    @pytest.mark.parametrize("over", ["postpone", "fail"])
    def test_a_spent_budget(self, at: Project, over: str) -> None:
        session = self.failed(at)
        RetrySettings.objects.create(project=at, retry_budget={**BUDGET, "over": over})
        assert self.held_for(session) == ""
        now = timezone.now()
        RetryBudgetState.objects.create(scope=f"project:{at.pk}", spent_since=now, judged_at=now)
        found = self.tried(session)
        if over == "fail":
            assert found.outcome == "exhausted"
        else:
            assert self.held_for(session) == "shared_budget"
