"""Quotas: who is let in, who waits, and that the counters follow whatever happens."""

from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from interfaces.requests.bodies import SessionCreate
from retry.evidence.termination import Termination
from scheduler.services.expire import leases_expire
from sessions_app.core.errors import QuotaExceeded
from sessions_app.models import Project, ProjectUsage, RetryDecision, Session
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.chains.manual_retry import session_retry
from sessions_app.services.chains.settle import End, sessions_settle
from sessions_app.services.resources.quotas import usage_rebuild
from sessions_app.services.sessions.cancel import chain_cancel
from sessions_app.services.sessions.submission import Placed
from sessions_app.services.sessions.submit import sessions_submit
from tests import factories
from tests.agent import Agent, Api, agent, failed, running
from tests.audit import audited_acts
from tests.factories import named_policy, policy, project, quotas, settle, submit
from tests.invariants import check_all

NODE = {"name": "n1", "allocatable": {"cpu": "64", "memory": "64Gi", "gpu": "8"}}


@pytest.fixture
def played() -> Agent:
    return agent(nodes=[NODE])


@pytest.fixture
def api(owner: User) -> Api:
    return Api(factories.token(owner))


def used(scope: Any) -> dict[str, Decimal]:
    field = "project" if isinstance(scope, Project) else "domain"
    return dict(ProjectUsage.objects.filter(**{field: scope}).values_list("name", "used"))


class TestCreation:
    def test_submits_over_the_quota_are_refused(self, at: Project, api: Api) -> None:
        quotas(at, pending_sessions=2)
        body = {"project": at.address, "command": ["true"]}
        answers = [api.post("sessions/", body) for _ in range(3)]
        assert [each.status_code for each in answers] == [201, 201, 403]
        refused = answers[2].json()
        assert refused["code"] == "quota_exceeded"
        assert refused["title"] == "Quota exceeded"
        assert refused["quota"] == {
            "scope": at.address,
            "name": "pending_sessions",
            "used": "2",
            "limit": "2",
        }
        assert refused["detail"] == (
            f"the quota pending_sessions of {at.address} is 2, 2 are in use, and this needs 1"
        )
        assert Session.objects.count() == 2
        assert check_all() == []

    def test_the_quota_of_a_domain_holds_for_all_its_projects(self, at: Project) -> None:
        other, outside = project(domain=at.domain.name), project(domain="globex")
        quotas(at.domain, pending_sessions=2)
        submit(at)
        submit(other)
        for each in (at, other):
            with pytest.raises(QuotaExceeded, match="of acme is 2"):
                submit(each)
        submit(outside)
        assert used(at.domain) == {"pending_sessions": 2}
        assert check_all() == []

    def test_in_bulk_as_many_as_there_is_room_for_in_their_order(
        self, at: Project, api: Api
    ) -> None:
        free = project()
        quotas(at, pending_sessions=3)
        item = {"project": at.address, "command": ["true"]}
        items = [item, {**item, "creation_id": "a"}, {**item, "creation_id": "a"},
                 {**item, "project": free.address}, item, item,
                 {**item, "project": free.address}]  # fmt: skip
        results = api.post("sessions/bulk/", {"sessions": items}).json()["results"]
        assert [each["outcome"] for each in results] == [
            "created", "created", "exists", "created", "created", "refused", "created",
        ]  # fmt: skip
        assert results[5]["problem"]["code"] == "quota_exceeded"
        assert check_all() == []

    def test_existing_sessions_need_no_room(self, at: Project, api: Api) -> None:
        quotas(at, pending_sessions=1)
        body = {"project": at.address, "command": ["true"], "creation_id": "once"}
        first = api.post("sessions/", body)
        again = api.post("sessions/", body)
        other = api.post("sessions/", {**body, "command": ["false"]})
        assert [each.status_code for each in (first, again, other)] == [201, 200, 409]
        assert again.json()["id"] == first.json()["id"]
        assert used(at) == {"pending_sessions": 1}

    def test_sessions_larger_than_the_quota_are_refused(self, at: Project, api: Api) -> None:
        quotas(at, memory="4Gi")
        body = {"project": at.address, "command": ["true"], "resources": {"memory": "3Gi"}}
        assert api.post("sessions/", body).status_code == 201
        assert api.post("sessions/", body).status_code == 201
        answer = api.post("sessions/", {**body, "cluster_size": 2})
        assert answer.status_code == 403
        assert answer.json()["errors"] == {"resources.memory": ["is more than 4Gi"]}

    def test_the_number_of_statements_is_fixed(self, at: Project, owner: User) -> None:
        asked = submit(at, owner=owner)
        quotas(at, pending_sessions=500, sessions=10, memory="1Gi")
        submission = SessionCreate.model_validate({"command": ["true"]}).submission()
        placed = Placed(asked.queue, owner.pk, submission)
        counts = []
        for number in (1, 300):
            with CaptureQueriesContext(connection) as queries:
                outcomes = sessions_submit([placed] * number)
            assert not any(isinstance(each, Exception) for each in outcomes)
            counts.append(len(queries))
        assert counts[0] == counts[1]
        assert used(at)["pending_sessions"] == 302


class TestLeases:
    def test_sessions_over_the_quota_wait_until_there_is_room(
        self, at: Project, played: Agent
    ) -> None:
        quotas(at, sessions=2)
        sessions = [submit(at) for _ in range(4)]
        assert played.lease() == [each.pk for each in sessions[:2]]
        assert played.lease() == []
        played.start(sessions[0].pk)
        played.succeed(sessions[0].pk)
        assert played.lease() == [sessions[2].pk]
        assert used(at) == {"sessions": 2}
        assert check_all() == []

    def test_resources_in_use(self, at: Project, played: Agent) -> None:
        quotas(at, memory="10Gi", gpu=2)
        large = submit(at, resources={"memory": "8Gi", "gpu": 1})
        gang = submit(at, resources={"gpu": 1}, cluster_size=2)
        small = submit(at, resources={"memory": "2Gi"})
        assert played.lease() == [large.pk, small.pk]
        assert used(at) == {"resources.memory": 10 * 2**30, "resources.gpu": 1}
        played.start(large.pk)
        played.fail(large.pk)
        assert played.lease() == [gang.pk]
        assert used(at) == {"resources.memory": 2 * 2**30, "resources.gpu": 2}
        assert check_all() == []

    def test_a_full_project_hides_nobody(self, at: Project, played: Agent) -> None:
        other = project()
        quotas(at, sessions=0)
        quotas(at, gpu=1)
        for _ in range(5):
            submit(at, priority=9)
        free = submit(other)
        assert played.lease(limits={"max_sessions": 1}) == [free.pk]

    def test_a_wait_for_a_resource_hides_no_other_project(self, at: Project, played: Agent) -> None:
        other = project()
        quotas(at, gpu=1)
        holder = submit(at, priority=10, resources={"gpu": 1})
        assert played.lease() == [holder.pk]
        for _ in range(5):
            submit(at, priority=9, resources={"gpu": 1})
        free = submit(other)
        assert played.lease(limits={"max_sessions": 2}) == [free.pk]

    def test_sessions_that_can_never_start_hide_nothing(self, at: Project, played: Agent) -> None:
        session = submit(at, priority=5, resources={"gpu": 2})
        small = submit(at, resources={"gpu": 1})
        quotas(at, gpu=1)
        assert played.lease(limits={"max_sessions": 1}) == [small.pk]
        assert played.lease() == []
        quotas(at, gpu=4)
        assert played.lease() == [session.pk]
        assert check_all() == []

    def test_the_number_of_statements_does_not_grow(self, at: Project, played: Agent) -> None:
        quotas(at, sessions=200, gpu=8)
        quotas(at.domain, sessions=200)
        counts = []
        for number in (1, 50):
            sessions = [submit(at) for _ in range(number)]
            with CaptureQueriesContext(connection) as queries:
                assert played.lease() == [each.pk for each in sessions]
            counts.append(len(queries))
        # The second call has leases to look at before.
        assert counts[1] - counts[0] <= 1


class TestCounters:
    """Whatever a session does, the counters are what a count would find."""

    def test_through_a_whole_chain(self, at: Project, played: Agent) -> None:
        quotas(at, sessions=5, pending_sessions=5, cpu=5)
        quotas(at.domain, sessions=5, pending_sessions=5, cpu=5)
        root = submit(at, retry_policy=policy(), resources={"cpu": "500m"})
        assert used(at) == used(at.domain) == {
            "sessions": 0, "pending_sessions": 1, "resources.cpu": 0,
        }  # fmt: skip
        failed(played, root)
        assert set(used(at).values()) == {0}
        retries_dispatch()
        assert used(at)["pending_sessions"] == 1
        child = running(played, Session.objects.get(parent=root))
        assert used(at) == {
            "sessions": 1, "pending_sessions": 0, "resources.cpu": Decimal("0.5"),
        }  # fmt: skip
        played.succeed(child.pk)
        assert set(used(at).values()) == {0}
        assert check_all() == []

    def test_a_retry_is_never_refused_but_waits(self, at: Project, played: Agent) -> None:
        quotas(at, pending_sessions=1, sessions=1)
        root = submit(at, retry_policy=policy())
        running(played, root)
        later = submit(at, retry_policy=policy(), priority=5)
        played.fail(root.pk)
        assert retries_dispatch().dispatched == 1
        assert used(at) == {"pending_sessions": 2, "sessions": 0}
        with pytest.raises(QuotaExceeded, match="2 are in use"):
            submit(at)
        child = Session.objects.get(parent=root)
        assert played.lease() == [later.pk]
        assert played.lease() == []
        settle(later)
        assert played.lease() == [child.pk]
        assert check_all() == []

    def test_returned_expired_and_cancelled(self, at: Project, played: Agent) -> None:
        quotas(at, pending_sessions=5, sessions=5)
        sessions = [submit(at) for _ in range(3)]
        assert len(played.lease()) == 3
        assert used(at) == {"pending_sessions": 0, "sessions": 3}
        played.give_back(sessions[0].pk)
        assert used(at) == {"pending_sessions": 1, "sessions": 2}
        with connection.cursor() as cursor:
            cursor.execute("UPDATE scheduler_lease SET granted_at = now() - interval '1 day'")
        leases_expire()
        assert used(at) == {"pending_sessions": 3, "sessions": 0}
        for session in sessions:
            chain_cancel(session.pk, by="ann")
        assert used(at) == {"pending_sessions": 0, "sessions": 0}
        session_retry(sessions[0].pk, sessions[0].pk, by="ann")
        assert used(at) == {"pending_sessions": 1, "sessions": 0}
        assert check_all() == []

    def test_a_forgetful_executor(self, at: Project, played: Agent) -> None:
        quotas(at, pending_sessions=5, sessions=5)
        ran, leased = submit(at), submit(at)
        played.lease()
        played.start(ran.pk)
        played.forget()
        played.lease(limits={"max_sessions": 0})
        assert used(at) == {"pending_sessions": 1, "sessions": 0}
        assert leased.pk in played.lease()
        assert check_all() == []

    def test_many_end_in_as_many_statements_as_one(self, at: Project, owner: User) -> None:
        quotas(at, sessions=100, pending_sessions=100, cpu=100)
        counts = []
        for number in (1, 30):
            sessions = [
                factories.start(submit(at, owner=owner, resources={"cpu": 1 + n % 3}))
                for n in range(number)
            ]
            end = End(Termination(exit_code=1))
            with CaptureQueriesContext(connection) as queries:
                sessions_settle({each.pk: end for each in sessions})
            counts.append(len(queries))
        few, many = counts
        assert many == few + 1  # many events are copied, beside all other rows
        assert set(used(at).values()) == {0}

    def test_without_quotas_settling_asks_nothing_more(self, at: Project, owner: User) -> None:
        def statements() -> int:
            session = factories.start(submit(at, owner=owner))
            with CaptureQueriesContext(connection) as queries:
                sessions_settle({session.pk: End(Termination(exit_code=1))})
            return len(queries)

        before = statements()
        quotas(project(), sessions=1)
        assert statements() == before
        quotas(at.domain, sessions=10)
        assert statements() == before + 2


class TestSetting:
    def test_present_use_is_counted_when_a_limit_is_set(self, at: Project, played: Agent) -> None:
        running(played, submit(at, resources={"cpu": 3}))
        submit(at)
        quotas(at, sessions=1, cpu=1, pending_sessions=9)
        quotas(at.domain, sessions=7)
        assert used(at) == {"sessions": 1, "pending_sessions": 1, "resources.cpu": 3}
        assert used(at.domain) == {"sessions": 1}
        assert check_all() == []

    def test_a_lowered_limit_lets_go_on_what_is_in_use(self, at: Project, played: Agent) -> None:
        quotas(at, sessions=2)
        first, second = submit(at), submit(at)
        assert len(played.lease()) == 2
        quotas(at, sessions=1)
        third = submit(at)
        played.start(first.pk)
        played.succeed(first.pk)
        assert played.lease() == []
        played.start(second.pk)
        played.succeed(second.pk)
        assert played.lease() == [third.pk]
        assert check_all() == []

    def test_a_limit_that_is_half_set_holds_nobody_and_is_counted(self, at: Project) -> None:
        """As it is left by whoever was killed between the two steps of setting it."""
        ProjectUsage.objects.create(project=at, name="pending_sessions")
        submit(at)
        submit(at)
        assert used(at) == {"pending_sessions": 2}
        quotas(at, pending_sessions=2)
        assert used(at) == {"pending_sessions": 2}
        with pytest.raises(QuotaExceeded):
            submit(at)

    def test_the_rebuild_puts_right_what_is_wrong(self, at: Project, played: Agent) -> None:
        quotas(at, sessions=3, pending_sessions=3, cpu=8)
        quotas(at.domain, pending_sessions=10)
        running(played, submit(at, resources={"cpu": 2}))
        submit(at)
        assert usage_rebuild() == (4, 0)
        ProjectUsage.objects.update(used=7)
        assert usage_rebuild() == (4, 4)
        assert used(at) == {"sessions": 1, "pending_sessions": 1, "resources.cpu": 2}
        assert used(at.domain) == {"pending_sessions": 1}
        assert check_all() == []

    def test_a_counter_that_missed_a_session_stops_nobody(self, at: Project, played: Agent) -> None:
        quotas(at, sessions=3)
        session = running(played, submit(at))
        ProjectUsage.objects.update(used=0)
        played.succeed(session.pk)
        assert used(at) == {"sessions": 0}

    def test_it_is_audited(self, at: Project) -> None:
        quotas(at, sessions=3, memory="2Gi")
        quotas(at, memory="4Gi")
        entry = audited_acts().latest("pk")
        assert (entry.action, entry.object_id, entry.project) == (
            "quota.change", at.address, at.address,
        )  # fmt: skip
        assert entry.data == {
            "before": {"resources.memory": str(2 * 2**30)},
            "after": {"resources.memory": str(4 * 2**30)},
        }


class TestMemoryGrowth:
    @pytest.fixture
    def rule(self) -> dict[str, Any]:
        return {
            "onConditions": ["OOMKilled"],
            "action": "Retry",
            "resources": {"memory": {"factor": 4.0}},
        }

    @pytest.mark.parametrize(
        ("own", "domains", "pods", "granted"),
        [
            (None, None, 1, "4Gi"),
            ("3Gi", None, 1, "3Gi"),
            (None, "2Gi", 1, "2Gi"),
            ("3Gi", "2Gi", 1, "2Gi"),
            ("3Gi", "16Gi", 2, "1536Mi"),
        ],
    )
    def test_it_stops_at_the_quota(
        self, at: Project, api: Api, rule: dict[str, Any],
        own: str | None, domains: str | None, pods: int, granted: str,
    ) -> None:  # fmt: skip
        if own:
            quotas(at, memory=own)
        if domains:
            quotas(at.domain, memory=domains)
        grow = named_policy(rules=[rule])
        session = submit(
            at, resources={"memory": "1Gi"}, retry_policies=[grow.name], cluster_size=pods
        )
        settle(factories.start(session), conditions=("OOMKilled",), exit_code=137)
        assert RetryDecision.objects.get().resources == {"memory": granted}
        sentences = api.read(f"sessions/{session.pk}/retry-decision/")["explanation"]
        assert ("the quota of the project" in str(sentences)) == bool(own or domains)
