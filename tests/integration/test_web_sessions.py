"""The list of sessions: its filters, acting on many, saved searches, and the first run."""

import re
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from scheduler.models import Executor
from sessions_app.core.states import Status
from sessions_app.models import Membership, PreparedAction, Project, SavedSearch, Session
from sessions_app.models.tenants import Role
from sessions_app.selectors import session_pages
from sessions_app.services.sessions import prepared_actions
from sessions_app.services.sessions.prepared_actions import actions_forget
from tests import factories
from tests.invariants import check_all
from tests.pages import client, owner, project

__all__ = ["client", "owner", "project"]

pytestmark = pytest.mark.django_db
LATER = {"max_retries": 3, "retry_delay": 3600.0}


def page(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200, (path, response)
    return response.content.decode()


def listed(client: Client, query: str) -> list[str]:
    """The names of the sessions that the list shows."""
    return re.findall(
        r'<a href="/sessions/[^"]+">([^<]+)</a>', page(client, f"/sessions/rows/?{query}")
    )


def told(response: Any) -> str:
    """The text of the page to which an answer leads."""
    text: str = response.content.decode()
    return " ".join(re.sub(r"<[^>]*>", " ", text).split())


def choose(client: Client, sessions: list[Session], act: str, **more: str) -> Any:
    """Choose sessions in the list; the question that follows."""
    data = {"act": act, "id": [str(each.pk) for each in sessions], **more}
    return client.post("/sessions/choose/", data, follow=True)


class TestFilters:
    @pytest.fixture
    def named(self, project: Project, owner: User) -> dict[str, Session]:
        """Sessions that differ in one thing each."""
        other = factories.user("otto", project=project)
        factories.queue(project, "night")
        made = {
            "plain": factories.submit(project, owner=owner, name="plain"),
            "foreign": factories.submit(project, owner=other, name="foreign"),
            "queued": factories.submit(project, owner=owner, name="queued", queue="night"),
            "pictured": factories.submit(project, owner=owner, name="pictured", image="a/cuda:12"),
            "labelled": factories.submit(
                project, owner=owner, name="labelled", labels={"team": "blue"}
            ),
            "grouped": factories.submit(project, owner=owner, name="grouped", job_set="sweep"),
            "held": factories.submit(project, owner=owner, name="held", retry_policy=LATER),
        }
        factories.settle(factories.start(made["held"]), exit_code=137, node="node-1")
        return made

    @pytest.mark.parametrize(
        ("query", "names"),
        [
            ("owner=otto", {"foreign"}),
            ("queue=night", {"queued"}),
            ("image=cuda", {"pictured"}),
            ("image=cuda&order=oldest", {"pictured"}),
            ("label=team", {"labelled"}),
            ("label=team%3Dblue", {"labelled"}),
            ("label=team%3Dred", set()),
            ("job_set=sweep", {"grouped"}),
            ("retry_state=scheduled", {"held"}),
            ("retry_state=retried", set()),
            ("retry_cause=kernel_nonzero_exit", {"held"}),
            ("node=node-1", {"held"}),
            ("executor=nowhere", set()),
            ("status=ERROR&image=cuda", set()),
            ("status=ERROR&attempts=all", {"held"}),
            ("created_before=2020-01-31T12:00", set()),
            ("search=plain&created_after=2020-01-31T12:00", {"plain"}),
        ],
    )
    def test_each_filter_finds_its_sessions(
        self, client: Client, named: dict[str, Session], query: str, names: set[str]
    ) -> None:
        assert set(listed(client, query)) == names

    def test_an_image_is_looked_for_among_a_bounded_number(
        self,
        client: Client,
        named: dict[str, Session],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(session_pages, "SEARCHED", 2)
        assert listed(client, "image=cuda") == []
        assert "no index" in page(client, "/?image=cuda")

    @pytest.mark.parametrize("query", ["created_after=7", "created_before=soon", "attempts=some"])
    def test_what_is_not_understood_is_named_at_its_field(
        self, client: Client, named: dict[str, Session], query: str
    ) -> None:
        name = query.partition("=")[0]
        assert f"These filters are not valid and were ignored: {name}." in page(
            client, f"/?{query}"
        )

    def test_the_count_is_of_the_same_sessions(
        self, client: Client, named: dict[str, Session]
    ) -> None:
        assert page(client, "/sessions/count/?owner=olga") == "6"
        assert page(client, "/sessions/count/?image=cuda") == "1"

    def test_chips_take_one_filter_away(self, client: Client, named: dict[str, Session]) -> None:
        html = page(client, "/?owner=otto&queue=night")
        assert 'href="/?queue=night"' in html
        assert 'href="/?owner=otto"' in html

    def test_columns_are_chosen_and_stay_in_the_address(
        self, client: Client, named: dict[str, Session]
    ) -> None:
        usual = page(client, "/")
        assert ">What comes next<" in usual.replace("\n", "").replace("  ", "")
        html = page(client, "/?columns=executor&columns=cause&status=ERROR")
        heads = re.findall(r"<th scope=\"col\"[^>]*>\s*([^<]+?)\s*<", html)
        assert [each for each in heads if each.strip()] == [
            *("Session", "Status", "Cause", "Executor / node")
        ]
        assert "/ node-1" in html
        assert "columns=cause%2Cexecutor" in html
        assert "These filters are not valid and were ignored: columns." in page(
            client, "/?columns=colour"
        )

    def test_statements_do_not_grow(
        self,
        client: Client,
        project: Project,
        owner: User,
        django_assert_num_queries: DjangoAssertNumQueries,
        django_assert_max_num_queries: DjangoAssertNumQueries,
    ) -> None:
        factories.submit(project, owner=owner)
        paths = {"/": 7, "/sessions/rows/": 5, "/sessions/rows/?image=x": 6}
        few = {}
        for path, most in paths.items():
            with django_assert_max_num_queries(most) as asked:
                page(client, path)
            few[path] = len(asked)
        for _ in range(3):
            factories.submit(project, owner=owner)
        for path, number in few.items():
            with django_assert_num_queries(number):
                page(client, path)


class TestMany:
    def test_cancel_is_asked_for_and_then_done(
        self, client: Client, project: Project, owner: User
    ) -> None:
        waiting = [factories.submit(project, owner=owner) for _ in range(3)]
        over = factories.submit(project, owner=owner)
        factories.settle(factories.start(over), status="terminated", exit_code=0)
        asked = choose(client, [*waiting, over], "cancel")
        assert "Cancel 3 sessions" in told(asked)
        assert "the chain has ended: the newest attempt is TERMINATED" in told(asked)
        assert not Session.objects.filter(status=Status.CANCELLED).exists()
        (address, _) = asked.redirect_chain[-1]
        done = client.post(address, {"confirmed": "1"}, follow=True)
        assert "3 of 3" in told(done)
        assert Session.objects.filter(status=Status.CANCELLED).count() == 3

    def test_what_changed_since_the_question_is_told(
        self, client: Client, project: Project, owner: User
    ) -> None:
        failed = [factories.settle(factories.submit(project, owner=owner)) for _ in range(2)]
        (address, _) = choose(client, failed, "retry").redirect_chain[-1]
        client.post(f"/sessions/{failed[0].pk}/", {"do": "retry"})
        done = told(client.post(address, {"confirmed": "1"}, follow=True))
        assert "What had changed since you looked" in done
        assert "only the newest attempt of a chain can be retried" in done
        assert Session.objects.filter(parent=failed[1]).count() == 1

    def test_more_memory_comes_with_the_retry(
        self, client: Client, project: Project, owner: User
    ) -> None:
        failed = factories.settle(
            factories.submit(project, owner=owner, resources={"memory": "1Gi"})
        )
        (address, _) = choose(client, [failed], "retry").redirect_chain[-1]
        wrong = client.post(address, {"memory": "much"})
        assert wrong.status_code == 200
        assert "field-memory-error" in wrong.content.decode()
        assert not Session.objects.filter(parent=failed).exists()
        client.post(address, {"memory": "2Gi"})
        assert Session.objects.get(parent=failed).spec.resources == {"memory": "2Gi"}

    def test_all_that_match_and_no_more(
        self, client: Client, project: Project, owner: User
    ) -> None:
        inside = [factories.submit(project, owner=owner, job_set="sweep") for _ in range(3)]
        factories.submit(project, owner=owner)
        choose(client, [], "cancel", all="1", query="job_set=sweep")
        prepared = PreparedAction.objects.get()
        assert set(prepared.ids) == {each.pk for each in inside}
        later = factories.submit(project, owner=owner, job_set="sweep")
        client.post(f"/sessions/many/{prepared.pk}/", {"confirmed": "1"})
        assert factories.reread(later).status == Status.PENDING
        assert Session.objects.filter(status=Status.CANCELLED).count() == 3

    def test_slices_go_on_where_the_last_one_ended(
        self, client: Client, project: Project, owner: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(prepared_actions, "SLICE", 1)
        monkeypatch.setattr("interfaces.web.many_sessions.REQUEST_SECONDS", -1.0)
        sessions = [factories.submit(project, owner=owner) for _ in range(2)]
        (address, _) = choose(client, sessions, "cancel").redirect_chain[-1]
        assert "1 of 2" in told(client.post(address, follow=True))
        assert "2 of 2" in told(client.post(f"{address}progress/"))
        assert "2 of 2" in told(client.post(f"{address}progress/"))
        assert PreparedAction.objects.get().done == 2

    def test_statements_of_a_slice_do_not_grow(
        self,
        client: Client,
        project: Project,
        owner: User,
        django_assert_max_num_queries: DjangoAssertNumQueries,
        django_assert_num_queries: DjangoAssertNumQueries,
    ) -> None:
        def act_on(number: int, asserted: DjangoAssertNumQueries, most: int) -> int:
            sessions = [factories.submit(project, owner=owner) for _ in range(number)]
            (address, _) = choose(client, sessions, "cancel").redirect_chain[-1]
            with asserted(most) as asked:
                client.post(address)
            return len(asked)

        few = act_on(2, django_assert_max_num_queries, 40)
        act_on(5, django_assert_num_queries, few)

    def test_each_session_is_authorized_again(
        self, client: Client, project: Project, owner: User
    ) -> None:
        session = factories.submit(project, owner=owner)
        (address, _) = choose(client, [session], "cancel").redirect_chain[-1]
        Membership.objects.filter(user=owner).delete()
        assert "there is no such session" in told(client.post(address, follow=True))
        assert factories.reread(session).status == Status.PENDING

    def test_preempt_is_for_maintainers(
        self, client: Client, project: Project, owner: User
    ) -> None:
        running = factories.start(factories.submit(project, owner=owner))
        assert "none of these can be" in told(choose(client, [running], "preempt"))
        client.force_login(factories.user("max", project=project, role=Role.MAINTAINER))
        assert "Preempt 1 session" in told(choose(client, [running], "preempt"))
        assert factories.reread(running).status == Status.RUNNING

    def test_a_priority_is_asked_for_and_checked(
        self, client: Client, project: Project, owner: User
    ) -> None:
        waiting = factories.submit(project, owner=owner)
        running = factories.start(factories.submit(project, owner=owner))
        asked = choose(client, [waiting, running], "priority")
        assert "Reprioritize 1 session" in told(asked)
        assert "can only be changed while the session waits" in told(asked)
        (address, _) = asked.redirect_chain[-1]
        for wrong in ("", "much", "1.5", "1000001"):
            answer = client.post(address, {"priority": wrong})
            assert "field-priority-error" in answer.content.decode(), wrong
        assert factories.reread(waiting).priority == 0
        done = told(client.post(address, {"priority": "-5"}, follow=True))
        assert "1 of 1 reprioritized" in done
        assert factories.reread(waiting).priority == -5

    def test_slices_keep_the_priority(
        self, client: Client, project: Project, owner: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(prepared_actions, "SLICE", 1)
        monkeypatch.setattr("interfaces.web.many_sessions.REQUEST_SECONDS", -1.0)
        sessions = [factories.submit(project, owner=owner) for _ in range(2)]
        (address, _) = choose(client, sessions, "priority").redirect_chain[-1]
        client.post(address, {"priority": "7"})
        client.post(f"{address}progress/")
        assert [factories.reread(each).priority for each in sessions] == [7, 7]

    def test_parked_chains_are_given_up(
        self, client: Client, project: Project, owner: User
    ) -> None:
        own = [factories.parked(project, owner=owner) for _ in range(3)]
        parked = [*own, factories.parked(project, owner=factories.user("max"))]
        ended = factories.settle(factories.start(factories.submit(project, owner=owner)))
        assert b'value="give_up"' in client.get("/?retry_state=parked").content
        assert b'value="give_up"' not in client.get("/").content
        asked = told(choose(client, [*parked[1:], ended], "give_up"))
        assert "Give up 2 sessions" in asked
        assert "the session is not the newest attempt of a parked chain" in asked
        done = choose(client, [], "give_up", all="1", query="retry_state=parked")
        (address, _) = done.redirect_chain[-1]
        client.post(f"/sessions/{own[0].pk}/", {"do": "retry"})
        over = told(client.post(address, {"confirmed": "1"}, follow=True))
        assert "2 of 3 given up" in over
        assert "What had changed since you looked" in over
        states = [factories.reread(each).retry_state for each in parked]
        assert states == ["retried", "exhausted", "exhausted", "parked"]
        assert check_all() == []
        viewer = factories.user("vic", project=project, role=Role.VIEWER)
        client.force_login(viewer)
        assert "none of these can be" in told(choose(client, [parked[-1]], "give_up"))

    def test_a_session_that_waits_has_the_button(
        self, client: Client, project: Project, owner: User
    ) -> None:
        waiting = factories.submit(project, owner=owner)
        running = factories.start(factories.submit(project, owner=owner))
        assert 'id="prioritize"' in page(client, f"/sessions/{waiting.pk}/")
        assert 'id="prioritize"' not in page(client, f"/sessions/{running.pk}/")
        sent = {"id": str(waiting.pk), "act": "priority"}
        assert "Reprioritize 1 session" in told(client.post("/sessions/choose/", sent, follow=True))

    def test_actions_are_of_who_prepared_them_and_expire(
        self, client: Client, project: Project, owner: User
    ) -> None:
        session = factories.submit(project, owner=owner)
        (address, _) = choose(client, [session], "cancel").redirect_chain[-1]
        stranger = Client()
        stranger.force_login(factories.user("sam", project=project))
        assert "o such action of yours" in told(stranger.post(address, follow=True))
        PreparedAction.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
        assert "o such action of yours" in told(client.post(address, follow=True))
        assert client.post(f"{address}progress/").headers["HX-Redirect"] == "/"
        assert factories.reread(session).status == Status.PENDING
        assert actions_forget(timezone.now(), 10) == 1

    @pytest.mark.parametrize(
        ("data", "text"),
        [
            ({"act": "cancel"}, "Choose at least one session"),
            ({"act": "cancel", "id": "nonsense"}, "Choose at least one session"),
            ({"act": "delete", "id": "00000000-0000-0000-0000-000000000000"}, "Choose an action"),
        ],
    )
    def test_nothing_chosen_is_said(self, client: Client, data: dict[str, str], text: str) -> None:
        assert text in told(client.post("/sessions/choose/", data, follow=True))


class TestSavedSearches:
    def test_a_search_is_saved_found_and_deleted(
        self, client: Client, project: Project, owner: User
    ) -> None:
        factories.submit(project, owner=owner)
        query = "status=ERROR&owner=olga"
        asked = {"name": " my  failures ", "query": query}
        assert "Saved as “my failures”." in told(client.post("/searches/", asked, follow=True))
        saved = SavedSearch.objects.get(user=owner)
        assert f"/?{saved.query}".replace("&", "&amp;") in page(client, "/")
        client.post(f"/searches/{saved.pk}/delete/")
        assert not SavedSearch.objects.exists()

    def test_they_are_ones_own(self, client: Client, owner: User) -> None:
        other = factories.user("otto")
        saved = SavedSearch.objects.create(user=other, name="of otto", query="status=ERROR")
        assert "of otto" not in page(client, "/?status=ERROR")
        client.post(f"/searches/{saved.pk}/delete/")
        assert SavedSearch.objects.exists()

    @pytest.mark.parametrize("name", ["", " ", "x" * 61])
    def test_a_bad_name_is_refused(self, client: Client, name: str) -> None:
        answer = client.post("/searches/", {"name": name, "query": "status=ERROR"}, follow=True)
        assert "Not saved: the name must have 1 to 60 letters." in told(answer)
        long = "&".join(f"{each}={quote('ä' * 199)}" for each in ("owner", "node", "queue"))
        assert "Not saved" in told(
            client.post("/searches/", {"name": "x", "query": long}, follow=True)
        )


class TestFirstRun:
    def test_without_an_executor_it_says_what_to_do(self, client: Client, owner: User) -> None:
        text = page(client, "/")
        assert "Ask an operator of this server to start one." in text
        assert "disabled>Run the demo session" in text
        client.force_login(factories.user("root", superuser=True))
        assert 'href="/admin/scheduler/executor/add/"' in page(client, "/")
        factories.executor("east")
        assert "None of those that are registered is heard." in page(client, "/")

    def test_it_takes_a_fixed_number_of_statements(
        self, client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
    ) -> None:
        with django_assert_max_num_queries(9):
            page(client, "/")

    def test_the_demo_session_is_submitted(self, client: Client, owner: User) -> None:
        factories.executor("east")
        Executor.objects.update(last_seen_at=timezone.now())
        assert "disabled" not in page(client, "/")
        answer = client.post("/first-run/", {"project": "acme/work"}, follow=True)
        made = Session.objects.get()
        assert answer.redirect_chain == [(f"/sessions/{made.pk}/", 302)]
        assert (made.name, made.owner, made.max_retries) == ("flaky", owner, 3)

    def test_somebody_in_no_project_is_told_so(self, client: Client) -> None:
        client.force_login(factories.user("sam"))
        assert "You are a member of none." in page(client, "/")

    @pytest.mark.parametrize("address", ["", "acme/none", "nonsense"])
    def test_a_wrong_project_is_told(self, client: Client, address: str) -> None:
        answer = client.post("/first-run/", {"project": address}, follow=True)
        assert "Not submitted: " in told(answer)
        assert not Session.objects.exists()
