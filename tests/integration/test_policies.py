"""Named policies: revisions, scopes, what names them, and what two people do at the same time."""

from typing import Any

import pytest

from retry.policies.documents import PolicyDocument
from sessions_app.core.errors import Conflict, InvalidInput, NotFound
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.in_force.named_policies import named_policies
from sessions_app.models import (
    AuditLog,
    Project,
    RetryPolicy,
    RetryPolicyRevision,
    RetrySettings,
    Session,
)
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.resources.policies import Applied, Deleted, policy_apply, policy_delete
from sessions_app.services.resources.retry_config import retry_settings_put
from sessions_app.services.sessions.cancel import chain_cancel
from tests import factories
from tests.audit import audited_acts
from tests.factories import attach, default_queue

CLUSTER = ConfigScope()


def document(name: str = "ml", scope: dict[str, Any] | None = None, **spec: Any) -> PolicyDocument:
    return PolicyDocument.model_validate(
        {
            "apiVersion": "reprise/v1",
            "kind": "RetryPolicy",
            "metadata": {"name": name, **(scope or {})},
            "spec": spec,
        }
    )


def apply(name: str = "ml", scope: ConfigScope = CLUSTER, **spec: Any) -> Applied:
    return policy_apply(document(name, **spec), scope, by="ann")


class TestRevisions:
    def test_the_first_one_is_1_and_each_edit_the_next(self) -> None:
        first = apply(retryLimit=1)
        assert (first.created, first.policy.revision, first.revision.created_by) == (True, 1, "ann")
        second = apply(retryLimit=2)
        assert (second.created, second.policy.revision) == (False, 2)
        stored = RetryPolicyRevision.objects.order_by("revision")
        assert [each.document["spec"]["retryLimit"] for each in stored] == [1, 2]

    def test_the_same_content_makes_no_revision(self) -> None:
        apply(retryLimit=1, backoff={"multiplier": 2})
        again = apply(retryLimit=1, backoff={"multiplier": 2.0})
        assert (again.created, again.policy.revision) == (False, 1)
        assert audited_acts().count() == 1

    def test_a_null_is_the_same_as_nothing(self) -> None:
        apply(retryLimit=1)
        assert apply(retryLimit=1, defaultAction=None, rules=None).policy.revision == 1

    def test_every_edit_is_audited_with_before_and_after(self, at: Project) -> None:
        apply(scope=ConfigScope(project=at), retryLimit=1)
        apply(scope=ConfigScope(project=at), retryLimit=2)
        policy_delete("ml", ConfigScope(project=at), by="bob")
        entries = audited_acts().order_by("id")
        recorded = [
            (each.actor, each.action, each.object_id, each.project, _limits(each))
            for each in entries
        ]
        assert recorded == [
            ("ann", "retry_policy.create", "acme/work/ml", "acme/work", (None, 1)),
            ("ann", "retry_policy.change", "acme/work/ml", "acme/work", (1, 2)),
            ("bob", "retry_policy.delete", "acme/work/ml", "acme/work", (2, None)),
        ]

    def test_creating_what_is_there_is_a_conflict(self) -> None:
        apply()
        with pytest.raises(Conflict, match="already"):
            policy_apply(document(), CLUSTER, by="ann", create=True)

    def test_a_stored_policy_names_its_scope(self, at: Project) -> None:
        made = policy_apply(document(), ConfigScope(project=at), by="ann")
        assert made.revision.document["metadata"] == {
            "name": "ml",
            "domain": "acme",
            "project": "work",
        }

    def test_a_document_of_another_scope_is_refused(self, at: Project) -> None:
        text = document(scope={"domain": "acme", "project": "work"})
        policy_apply(text, ConfigScope(project=at), by="ann")
        for scope, field in ((CLUSTER, "domain"), (ConfigScope(domain=at.domain), "project")):
            with pytest.raises(InvalidInput) as caught:
                policy_apply(text, scope, by="ann")
            assert list(caught.value.errors) == [f"metadata.{field}"]


def _limits(entry: AuditLog) -> tuple[int | None, ...]:
    documents = [entry.data[side].get("document") for side in ("before", "after")]
    return tuple(each and each["spec"]["retryLimit"] for each in documents)


class TestScopes:
    def test_a_name_is_taken_along_a_line_and_free_beside_it(self, at: Project) -> None:
        sibling = factories.project("other", domain="acme")
        far = factories.project("far", domain="globex")
        apply("ml", ConfigScope(project=at))
        apply("ml", ConfigScope(project=sibling))
        apply("ml", ConfigScope(project=far))
        for scope in (CLUSTER, ConfigScope(domain=at.domain)):
            with pytest.raises(Conflict, match="would shadow"):
                apply("ml", scope)
        apply("wide", ConfigScope(domain=at.domain))
        for scope in (CLUSTER, ConfigScope(project=at)):
            with pytest.raises(Conflict, match="domain acme"):
                apply("wide", scope)
        apply("wide", ConfigScope(project=far))
        apply("everywhere")
        for scope in (ConfigScope(domain=at.domain), ConfigScope(project=at)):
            with pytest.raises(Conflict, match="the cluster"):
                apply("everywhere", scope)
        assert RetryPolicy.objects.count() == 6

    def test_a_policy_can_be_attached_inside_its_scope_only(self, at: Project) -> None:
        far = factories.project("far", domain="globex")
        apply("of-project", ConfigScope(project=at))
        apply("of-domain", ConfigScope(domain=at.domain))
        apply("of-cluster")
        names = ("of-project", "of-cluster", "of-domain")
        attach(default_queue(at), *names, "of-cluster")
        assert default_queue(at).retry_policies == list(names)
        with pytest.raises(InvalidInput) as caught:
            attach(default_queue(far), *names, "nothing")
        text = "unknown retry policies: of-project, of-domain, nothing"
        assert caught.value.errors == {"retry_policies": [text]}
        assert default_queue(far).retry_policies == []

    def test_a_queue_has_at_most_16(self, at: Project) -> None:
        names = [factories.named_policy().name for _ in range(17)]
        attach(default_queue(at), *names[:16], *names[:16])
        with pytest.raises(InvalidInput, match="at most 16"):
            attach(default_queue(at), *names)

    def test_the_default_policy_is_one_of_the_cluster(self, at: Project) -> None:
        apply("mine", ConfigScope(project=at))
        with pytest.raises(InvalidInput) as caught:
            retry_settings_put(CLUSTER, default_policy="mine", by="ann")
        assert list(caught.value.errors) == ["default_policy"]
        apply("ours")
        retry_settings_put(CLUSTER, default_policy="ours", by="ann")
        assert RetrySettings.objects.get().default_policy == "ours"


class TestOfAChain:
    def test_the_queues_come_first_then_what_the_session_adds(self, at: Project) -> None:
        for name in ("one", "two", "three"):
            apply(name)
        attach(default_queue(at), "two", "one")
        session = factories.submit(at, retry_policies=["three", "one", "three"])
        assert session.retry_policies == ["two", "one", "three"]

    def test_the_default_is_for_chains_for_which_nobody_names_one(self, at: Project) -> None:
        apply("usual")
        apply("other")
        retry_settings_put(CLUSTER, default_policy="usual", by="ann")
        assert factories.submit(at).retry_policies == ["usual"]
        assert factories.submit(at, retry_policies=["other"]).retry_policies == ["other"]
        attach(default_queue(at), "other")
        assert factories.submit(at).retry_policies == ["other"]

    def test_unknown_names_are_told_all_at_once(self, at: Project) -> None:
        apply("known")
        with pytest.raises(InvalidInput) as caught:
            factories.submit(at, retry_policies=["a", "known", "b"])
        assert caught.value.errors == {"retry_policies": ["unknown retry policies: a, b"]}
        assert Session.objects.count() == 0

    def test_a_policy_of_another_project_is_unknown(self, at: Project) -> None:
        apply("theirs", ConfigScope(project=factories.project("other", domain="acme")))
        with pytest.raises(InvalidInput, match="theirs"):
            factories.submit(at, retry_policies=["theirs"])

    def test_an_archived_policy_is_unknown(self, at: Project) -> None:
        apply("old")
        factories.submit(at, retry_policies=["old"])
        assert policy_delete("old", CLUSTER, by="ann") is Deleted.ARCHIVED
        with pytest.raises(InvalidInput, match="old"):
            factories.submit(at, retry_policies=["old"])
        with pytest.raises(InvalidInput, match="old"):
            attach(default_queue(at), "old")

    def test_a_chain_has_at_most_16(self, at: Project) -> None:
        names = [factories.named_policy().name for _ in range(17)]
        attach(default_queue(at), *names[:10])
        assert len(factories.submit(at, retry_policies=names[4:16]).retry_policies) == 16
        with pytest.raises(InvalidInput, match="at most 16"):
            factories.submit(at, retry_policies=names[10:])

    def test_a_child_inherits_the_names_that_were_frozen(self, at: Project) -> None:
        apply("one")
        apply("two")
        attach(default_queue(at), "one")
        session = factories.submit(at, retry_policy=factories.policy())
        attach(default_queue(at), "two")
        factories.settle(session)
        retries_dispatch()
        assert factories.tip(session).retry_count == 1
        assert factories.tip(session).retry_policies == ["one"]

    def test_the_same_request_finds_its_session_after_the_policy_is_gone(self, at: Project) -> None:
        apply("one")
        owner = factories.user(project=at)
        asked = {"creation_id": "mine", "retry_policies": ["one"]}
        session = factories.submit(at, owner=owner, **asked)
        policy_delete("one", CLUSTER, by="ann")
        assert factories.submit(at, owner=owner, **asked) == session
        with pytest.raises(InvalidInput):
            factories.submit(at, owner=owner, **asked, name="another")

    def test_requested_policies_are_part_of_the_request(self, at: Project) -> None:
        apply("one")
        attach(default_queue(at), "one")
        owner = factories.user(project=at)
        session = factories.submit(at, owner=owner, creation_id="mine")
        attach(default_queue(at))
        # The queue's own part is no part of what was asked for.
        assert factories.submit(at, owner=owner, creation_id="mine") == session
        with pytest.raises(Conflict):
            factories.submit(at, owner=owner, creation_id="mine", retry_policies=["one"])


class TestDeletion:
    def test_unused_policies_are_deleted(self) -> None:
        apply()
        assert policy_delete("ml", CLUSTER, by="ann") is Deleted.DELETED
        assert not RetryPolicy.objects.exists()
        with pytest.raises(NotFound):
            policy_delete("ml", CLUSTER, by="ann")

    def test_policies_in_use_are_a_conflict_that_lists_the_uses(self, at: Project) -> None:
        apply()
        other = factories.queue(factories.project("far", domain="globex"), "night")
        attach(default_queue(at), "ml")
        attach(other, "ml")
        retry_settings_put(CLUSTER, default_policy="ml", by="ann")
        with pytest.raises(Conflict) as caught:
            policy_delete("ml", CLUSTER, by="ann")
        assert caught.value.extra == {
            "used_by": {"queues": ["acme/work/default", "globex/far/night"], "default": True}
        }
        assert "queue acme/work/default" in caught.value.detail
        attach(default_queue(at))
        attach(other)
        retry_settings_put(CLUSTER, default_policy="", by="ann")
        assert policy_delete("ml", CLUSTER, by="ann") is Deleted.DELETED

    def test_a_namesake_elsewhere_is_not_in_the_way(self, at: Project) -> None:
        far = factories.project("far", domain="globex")
        for project in (at, far):
            apply("ml", ConfigScope(project=project))
        attach(default_queue(far), "ml")
        factories.submit(far)
        assert policy_delete("ml", ConfigScope(project=at), by="ann") is Deleted.DELETED

    def test_while_chains_can_still_fail_it_is_archived_and_decides(self, at: Project) -> None:
        apply("ml", ConfigScope(domain=at.domain))
        scope = ConfigScope(domain=at.domain)
        session = factories.submit(
            at, retry_policies=["ml"], retry_policy=factories.policy(retry_delay=3600)
        )
        assert policy_delete("ml", scope, by="ann") is Deleted.ARCHIVED
        assert "ml" in named_policies([(at.pk, ["ml"])])[at.pk]
        factories.start(session)
        assert policy_delete("ml", scope, by="ann") is Deleted.ARCHIVED
        factories.settle(session)
        assert session.retry_state == "scheduled"
        assert policy_delete("ml", scope, by="ann") is Deleted.ARCHIVED
        chain_cancel(session.root_id, by="ann")
        assert policy_delete("ml", scope, by="ann") is Deleted.DELETED
        # Only the first one was a deletion.
        assert audited_acts().filter(action="retry_policy.delete").count() == 1

    def test_applying_an_archived_one_brings_it_back(self, at: Project) -> None:
        apply(retryLimit=1)
        factories.submit(at, retry_policies=["ml"])
        policy_delete("ml", CLUSTER, by="ann")
        back = policy_apply(document(retryLimit=1), CLUSTER, by="bob", create=True)
        assert (back.created, back.policy.revision, back.policy.archived_at) == (True, 2, None)
        assert policy_delete("ml", CLUSTER, by="ann") is Deleted.ARCHIVED

    def test_an_archived_name_is_taken_until_no_chain_needs_it(self, at: Project) -> None:
        apply()
        session = factories.submit(at, retry_policies=["ml"])
        policy_delete("ml", CLUSTER, by="ann")
        with pytest.raises(Conflict, match="archived"):
            apply("ml", ConfigScope(project=at))
        factories.settle(session)
        apply("ml", ConfigScope(project=at))
        assert [str(policy) for policy in RetryPolicy.objects.all()] == ["acme/work/ml"]


class TestReading:
    def test_a_batch_is_one_query_and_nothing_is_compiled_twice(
        self, at: Project, django_assert_num_queries: Any
    ) -> None:
        far = factories.project("far", domain="globex")
        apply("shared", retryLimit=1)
        apply("own", ConfigScope(project=at), retryLimit=2)
        apply("own", ConfigScope(domain=far.domain), retryLimit=3)
        wanted = [(at.pk, ["shared", "own"]), (far.pk, ["own", "missing"]), (at.pk, [])]
        with django_assert_num_queries(2):
            first = named_policies(wanted)
        with django_assert_num_queries(1):
            again = named_policies(wanted * 50)
        assert first == again
        assert {pk: sorted(found) for pk, found in first.items()} == {
            at.pk: ["own", "shared"],
            far.pk: ["own"],
        }
        assert first[at.pk]["own"] is again[at.pk]["own"]
        assert first[at.pk]["own"] is not first[far.pk]["own"]

    def test_an_edit_is_seen_at_once(self, at: Project) -> None:
        for limit in (1, 2):
            apply(retryLimit=limit, defaultAction="Retry")
            (policy,) = named_policies([(at.pk, ["ml"])])[at.pk].values()
            assert policy.revision == limit
            assert policy.default is not None
            assert policy.default.retry_limit == limit

    def test_naming_nothing_asks_nothing(self, django_assert_num_queries: Any) -> None:
        with django_assert_num_queries(0):
            assert named_policies([(1, []), (2, [])]) == {1: {}, 2: {}}
