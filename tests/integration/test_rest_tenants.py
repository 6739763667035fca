"""Domains, projects and memberships over REST: made, listed, and taken away when nothing holds."""

from functools import partial
from threading import Barrier
from typing import Any

import pytest
from django.db import transaction

from scheduler.models import Executor
from sessions_app.core.errors import Conflict, DomainError
from sessions_app.locks import database_now
from sessions_app.models import (
    ApiToken,
    Domain,
    Membership,
    Project,
    Queue,
    RetryPolicy,
    Session,
)
from sessions_app.models.tenants import Role
from sessions_app.services.resources.tenants import domain_delete, project_create, project_delete
from sessions_app.services.sessions import retention
from tests import factories
from tests.agent import Api, admin
from tests.audit import audited_acts
from tests.racing import race
from tests.waiting import PATIENCE_SECONDS


@pytest.fixture
def api() -> Api:
    return admin()


@pytest.fixture
def head(at: Project) -> Api:
    """The door of the admin of `acme`."""
    head = factories.user("head", domain=at.domain, role=Role.DOMAIN_ADMIN)
    return Api(factories.token(head))


def refused(response: Any, status: int, *fields: str) -> dict[str, Any]:
    assert response.status_code == status, response.content
    problem: dict[str, Any] = response.json()
    assert list(problem["errors"]) == list(fields)
    return problem


def names(api: Api, path: str, field: str = "name") -> list[str]:
    return [each[field] for each in api.read(path)["results"]]


def test_from_an_empty_cluster_to_a_session(api: Api) -> None:
    made = api.post("domains/", {"name": "acme"})
    assert made.status_code == 201
    assert api.read(made["Location"]) == made.json() == api.read("domains/acme/")
    project = api.post("projects/", {"domain": "acme", "name": "ml"})
    assert project.status_code == 201
    assert api.read(project["Location"]) == project.json() == api.read("projects/acme/ml/")
    assert names(api, "queues/?project=acme/ml") == ["default"]
    mia = factories.user("mia")
    body = {"user": "mia", "role": "MEMBER", "project": "acme/ml"}
    member = api.post("memberships/", body)
    assert member.status_code == 201
    granted = {"user": "mia", "role": "member", "domain": None, "project": "acme/ml"}
    assert member.json() == {**granted, "id": Membership.objects.get().pk}
    assert api.read(member["Location"]) == member.json()
    own = Api(factories.token(mia))
    submitted = own.post("sessions/", {"project": "acme/ml", "command": ["true"]})
    assert submitted.status_code == 201
    assert api.call("PATCH", member["Location"], {"role": "viewer"}).json()["role"] == "viewer"
    assert own.post("sessions/", {"project": "acme/ml", "command": ["true"]}).status_code == 403
    assert api.call("DELETE", member["Location"]).status_code == 204
    assert own.read("projects/")["results"] == []
    actions = list(audited_acts().order_by("pk").values_list("action", flat=True))
    assert actions == [
        "domain.create",
        "project.create",
        "queue.create",
        "membership.create",
        "membership.change",
        "membership.delete",
    ]


def test_an_admin_of_a_domain_makes_projects_and_gives_roles(head: Api, at: Project) -> None:
    factories.domain("globex")
    factories.user("mia")
    assert head.post("projects/", {"domain": "acme", "name": "new"}).status_code == 201
    problem = refused(head.post("projects/", {"domain": "globex", "name": "new"}), 400, "domain")
    missing = refused(head.post("projects/", {"domain": "ghost", "name": "new"}), 400, "domain")
    assert problem["detail"].replace("globex", "") == missing["detail"].replace("ghost", "")
    for place in ({"domain": "acme"}, {"project": "acme/new"}):
        body = {"user": "mia", "role": "viewer", **place}
        assert head.post("memberships/", body).status_code == 201
    body = {"user": "mia", "role": "viewer", "domain": "globex"}
    refused(head.post("memberships/", body), 400, "domain")
    assert Membership.objects.filter(user__username="mia").count() == 2


@pytest.mark.parametrize("name", ["", "Big", "a_b", "-a", "a-", "x" * 64, "ä", 3, None, ["a"]])
def test_a_name_that_is_no_label_is_refused(api: Api, name: Any) -> None:
    factories.domain("acme")
    refused(api.post("domains/", {"name": name}), 400, "name")
    refused(api.post("projects/", {"domain": "acme", "name": name}), 400, "name")
    assert (Domain.objects.count(), Project.objects.count()) == (1, 0)
    assert not audited_acts().exists()


def test_a_name_is_given_once(api: Api, at: Project) -> None:
    refused(api.post("domains/", {"name": "acme"}), 409, "name")
    refused(api.post("projects/", {"domain": "acme", "name": "work"}), 409, "name")
    factories.domain("globex")
    assert api.post("projects/", {"domain": "globex", "name": "work"}).status_code == 201


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"role": "boss"}, "role"),
        ({"role": "domain_admin"}, "role"),
        ({"role": None}, "role"),
        ({"user": "ghost"}, "user"),
        ({"user": "gone"}, "user"),
        ({"user": ""}, "user"),
        ({"project": "acme/ghost"}, "project"),
        ({"project": "acme"}, "project"),
        ({"project": None}, "project"),
        ({"domain": "acme"}, "project"),
        ({"more": 1}, "more"),
    ],
)
def test_a_membership_that_makes_no_sense(
    api: Api, at: Project, body: dict[str, Any], field: str
) -> None:
    gone = factories.user("gone")
    gone.is_active = False
    gone.save()
    factories.user("mia")
    whole = {"user": "mia", "role": "viewer", "project": "acme/work", **body}
    refused(api.post("memberships/", whole), 400, field)
    assert not Membership.objects.exists()


def test_one_role_in_one_place(api: Api, at: Project) -> None:
    factories.user("mia", project=at)
    body = {"user": "mia", "role": "viewer", "project": "acme/work"}
    refused(api.post("memberships/", body), 409, "user")
    path = f"memberships/{Membership.objects.get().pk}/"
    refused(api.call("PATCH", path, {"role": "domain_admin"}), 400, "role")
    refused(api.call("PATCH", path, {"user": "root"}), 400, "role", "user")
    assert Membership.objects.get().role == "member"


def test_projects_that_keep_a_domain_are_named(api: Api, at: Project) -> None:
    problem = refused(api.call("DELETE", "domains/acme/"), 409)
    assert problem["held_by"] == ["project acme/work"]
    assert "acme/work" in problem["detail"]
    assert api.call("DELETE", "projects/acme/work/").status_code == 204
    factories.user("mia", domain=at.domain)
    factories.named_policy("one", domain=at.domain)
    assert api.call("DELETE", "domains/acme/").status_code == 204
    assert not Domain.objects.exists()
    assert not Membership.objects.exists()
    assert api.call("DELETE", "domains/acme/").status_code == 404


def test_settings_of_a_project_are_deleted_with_it(head: Api, at: Project) -> None:
    mia = factories.user("mia", project=at)
    narrowed = Api(factories.token(mia, project=at))
    factories.named_policy("one", project=at)
    factories.quotas(at, sessions=3)
    factories.queue(at, "night")
    head.call("PUT", "retry-defaults/projects/acme/work/", {"policy": {"max_retries": 1}})
    assert head.call("DELETE", "projects/acme/work/").status_code == 204
    assert (Project.objects.count(), Queue.objects.count(), RetryPolicy.objects.count()) == (0,) * 3
    assert Membership.objects.get().user.username == "head"
    assert narrowed.get("whoami/").status_code == 401
    assert ApiToken.objects.get().user == Membership.objects.get().user
    entry = audited_acts().latest("pk")
    assert (entry.actor, entry.action, entry.object_id) == ("head", "project.delete", "acme/work")
    (entry,) = audited_acts().filter(action="retry_policy.delete")
    assert (entry.actor, entry.object_id, entry.project) == ("head", "acme/work/one", "acme/work")
    assert entry.data["before"]["document"]["metadata"]["name"] == "one"


def test_a_project_in_which_something_ran_stays(head: Api, at: Project) -> None:
    session = factories.submit(at)
    for _ in range(2):
        problem = refused(head.call("DELETE", "projects/acme/work/"), 409)
        assert problem["held_by"] == ["sessions"]
        factories.settle(session)
    # Long after, only the log knows of it.
    now = database_now()
    assert retention.chains_archive(retention.chains_ended(now), now) == 1
    assert not Session.objects.exists()
    assert refused(head.call("DELETE", "projects/acme/work/"), 409)["held_by"] == ["sessions"]
    assert Queue.objects.count() == 1


def test_an_executor_never_serves_all_because_its_project_went(head: Api, at: Project) -> None:
    executor = factories.executor("rack-1", projects=(at,))
    problem = refused(head.call("DELETE", "projects/acme/work/"), 409)
    assert problem["held_by"] == ["executors"]
    assert list(Executor.objects.get(pk=executor.pk).projects.all()) == [at]


def test_lists_are_filtered(api: Api, at: Project) -> None:
    factories.project("far", domain="globex")
    factories.user("mia", project=at)
    factories.user("joe", domain=at.domain, role=Role.DOMAIN_ADMIN)
    assert names(api, "domains/") == ["acme", "globex"]
    assert names(api, "domains/?search=gl") == ["globex"]
    assert names(api, "projects/?domain=globex") == ["far"]
    assert names(api, "projects/?search=wo") == ["work"]
    assert names(api, "memberships/?project=acme/work", "user") == ["mia"]
    assert names(api, "memberships/?domain=acme", "user") == ["joe"]
    assert names(api, "memberships/?role=Member", "user") == ["mia"]
    assert names(api, "memberships/?user=joe", "role") == ["domain_admin"]
    for path in ("domains/?name=a", "projects/?domain=", "memberships/?role=boss"):
        assert api.get(path).status_code == 400, path


def test_one_sees_ones_own_world(at: Project) -> None:
    far = factories.project("far", domain="globex")
    factories.project("other", domain="acme")
    factories.user("joe", domain=far.domain)
    mia = factories.user("mia", project=at)
    factories.user("head", domain=at.domain, role=Role.DOMAIN_ADMIN)
    api = Api(factories.token(mia))
    assert names(api, "domains/") == ["acme"]
    assert names(api, "projects/") == ["work"]
    assert names(api, "memberships/", "user") == ["mia", "head"]
    narrowed = Api(factories.token(mia, project=at))
    assert names(narrowed, "domains/") == []
    assert names(narrowed, "projects/") == ["work"]
    assert names(narrowed, "memberships/", "user") == ["mia"]


@pytest.mark.parametrize(
    ("path", "count"), [("domains/", 2), ("projects/", 2), ("memberships/", 2)]
)
def test_lists_take_as_many_queries_for_many_as_for_one(
    path: str, count: int, at: Project, django_assert_num_queries: Any
) -> None:
    mia = factories.user("mia", project=at)
    api = Api(factories.token(mia))
    api.read(path)
    with django_assert_num_queries(count):
        assert len(api.read(path)["results"]) == 1
    for number in range(10):
        made = factories.project(domain=f"domain-{number}")
        Membership.objects.create(user=mia, project=made, role="viewer")
    with django_assert_num_queries(count):
        assert len(api.read(path)["results"]) == 11
    pages = api.pages(f"{path}?page_size=4")
    assert [len(page) for page in pages] == [4, 4, 3]
    assert api.get(f"{path}?cursor=junk").status_code == 404


@pytest.mark.django_db(transaction=True)
class TestRaces:
    def test_a_project_made_while_its_domain_goes(self) -> None:
        for number in range(8):
            domain = factories.domain(f"domain-{number}")
            made, deleted = race(
                partial(project_create, domain, "new", by="ann"),
                partial(domain_delete, domain, by="bob"),
            )
            exists = Domain.objects.filter(pk=domain.pk).exists()
            assert exists is isinstance(made, Project) is isinstance(deleted, Conflict)

    def test_a_submission_on_its_way_keeps_the_project(self) -> None:
        at = factories.project("work", domain="acme")
        owner, submitted = factories.user(project=at), Barrier(2)

        def submit_slowly() -> None:
            with transaction.atomic():
                factories.submit(at, owner=owner)
                submitted.wait(PATIENCE_SECONDS)

        def delete() -> None:
            submitted.wait(PATIENCE_SECONDS)
            project_delete(at, by="ann")

        _, deleted = race(submit_slowly, delete)
        assert isinstance(deleted, Conflict)
        assert Session.objects.get().project == at

    def test_deleting_against_submitting(self) -> None:
        for number in range(6):
            at = factories.project(f"project-{number}")
            owner = factories.user()
            submitted, deleted = race(
                partial(factories.submit, at, owner=owner), partial(project_delete, at, by="ann")
            )
            exists = Project.objects.filter(pk=at.pk).exists()
            assert exists is isinstance(submitted, Session), submitted
            assert exists is isinstance(deleted, Conflict), deleted
            assert exists or isinstance(submitted, DomainError)
