"""The pages, as a browser asks for them and as people may use them."""

import re
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.messages import get_messages
from django.template.loader import render_to_string
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from interfaces.templatetags.reprise import ago, counted, duration, until
from interfaces.templatetags.timeline import chain_picture
from sessions_app.core.states import RetryState, Status
from sessions_app.models import LogChunk, Project, Session
from sessions_app.models.tenants import Role
from sessions_app.services.chains.dispatch import retries_dispatch
from tests import factories
from tests.pages import client, owner, project, signed_in

__all__ = ["client", "owner", "project"]

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
AT_ONCE = {"retry_delay": 0.000_001, "jitter": "none"}
LATER = {"max_retries": 3, "retry_delay": 3600.0}
SCRIPT = "<script>alert(1)</script>"


def page(client: Client, path: str) -> str:
    """The text of a page that must be there."""
    response = client.get(path)
    assert response.status_code == 200, path
    return response.content.decode()


def session_path(session: Session) -> str:
    return f"/sessions/{session.pk}/"


def prose(html: str) -> str:
    """Return the text that a reader sees: no tags, one space between words."""
    return " ".join(unescape(re.sub(r"<[^>]*>", "", html)).split())


def failed_chain(project: Project, owner: User, attempts: int) -> list[Session]:
    """A chain whose first attempts failed and whose last one waits in its queue."""
    policy = {"max_retries": attempts, **AT_ONCE}
    chain = [factories.submit(project, owner=owner, retry_policy=policy)]
    while len(chain) < attempts:
        factories.settle(chain[-1])
        assert retries_dispatch().dispatched
        chain.append(Session.objects.get(parent=chain[-1]))
    return chain


def messages_of(response: object) -> str:
    """The messages that a response leaves for the next page."""
    return " ".join(str(message) for message in get_messages(response.wsgi_request))  # type: ignore[attr-defined]


class TestAccess:
    def test_pages_ask_for_a_login_and_come_back(self, project: Project, owner: User) -> None:
        path = session_path(factories.submit(project, owner=owner))
        for wanted in ("/", path):
            response = Client().get(wanted)
            assert (response.status_code, response["Location"]) == (302, f"/login/?next={wanted}")
        sign_in = {"username": owner.username, "password": factories.PASSWORD, "next": path}
        assert Client().post("/login/", sign_in)["Location"] == path

    def test_a_wrong_password_is_said(self, owner: User) -> None:
        response = Client().post("/login/", {"username": owner.username, "password": "no"})
        assert "Please enter a correct username and password" in response.content.decode()

    def test_an_empty_login_is_said(self) -> None:
        response = Client().post("/login/", {})
        assert "Give both a user name and a password." in response.content.decode()

    def test_a_stranger_finds_nothing(self, project: Project, owner: User) -> None:
        session = factories.submit(project, owner=owner, name="secret-work")
        stranger = signed_in(factories.user("sam", project=factories.project("elsewhere")))
        assert "secret-work" not in page(stranger, "/")
        assert "secret-work" not in page(stranger, "/?project=acme/work")
        response = stranger.get(session_path(session))
        assert response.status_code == 404
        assert "secret-work" not in response.content.decode()

    def test_an_unknown_session_is_a_page_that_says_so(self, client: Client) -> None:
        response = client.get(f"/sessions/{uuid4()}/")
        assert response.status_code == 404
        assert "Not found" in response.content.decode()

    def test_signing_out_is_a_button_and_not_a_link(self, client: Client) -> None:
        assert client.get("/logout/").status_code == 405
        assert client.post("/logout/").status_code == 302
        assert client.get("/").status_code == 302


class TestHome:
    def test_the_newest_attempt_of_each_chain_and_what_comes_next(
        self, client: Client, project: Project, owner: User
    ) -> None:
        root, child = failed_chain(project, owner, 2)
        waiting = factories.submit(project, owner=owner, name="train", retry_policy=LATER)
        factories.settle(waiting, exit_code=137)
        html = page(client, "/")
        assert session_path(root) not in html
        assert html.index(session_path(waiting)) < html.index(session_path(child))
        text = prose(html)
        assert "attempt 2; 1 of 2 retries for failures used" in text
        assert "attempt 1; 0 of 3 retries for failures used" in text
        assert "kernel nonzero exit exit code 137" in text
        assert re.search(r"Retry in (59 min \d+ s|1 h)", text)

    def test_filters_by_status_project_and_search(
        self, client: Client, project: Project, owner: User
    ) -> None:
        other = factories.project("audio")
        factories.user("ona", project=other)
        client.force_login(factories.user("root", superuser=True))
        broken = factories.settle(factories.submit(project, owner=owner, name="broken"))
        fresh = factories.submit(project, owner=owner, name="fresh")
        foreign = factories.submit(other, name="foreign")

        def found(query: str) -> set[str]:
            html = page(client, f"/{query}")
            return {s.name for s in (broken, fresh, foreign) if session_path(s) in html}

        assert found("") == {"broken", "fresh", "foreign"}
        assert found("?status=ERROR") == {"broken"}
        assert found("?status=pending&project=acme/work") == {"fresh"}
        assert found("?project=acme/audio&search=") == {"foreign"}
        assert found("?search=fre") == {"fresh"}
        assert found(f"?search={str(broken.pk)[:23]}") <= {"broken", "fresh"}
        assert found("?project=acme/none") == set()

    @pytest.mark.parametrize(
        ("query", "names"),
        [
            ("?status=BROKEN", "status"),
            ("?after=1", "after"),
            ("?order=up&status=%00", "order, status"),
            ("?search=%00", "search"),
            ("?project=" + "x" * 201, "project"),
        ],
    )
    def test_junk_is_named_and_left_out(
        self, client: Client, project: Project, owner: User, query: str, names: str
    ) -> None:
        session = factories.submit(project, owner=owner)
        html = page(client, f"/{query}")
        assert f"These filters are not valid and were ignored: {names}." in html
        assert session_path(session) in html

    @pytest.mark.parametrize("query", ["?unknown=1", "?status=", "?search=%FF%FE", "?project=x"])
    def test_odd_queries_are_no_errors(self, client: Client, query: str) -> None:
        page(client, f"/{query}")

    def test_pages_lead_through_all_chains_in_both_orders(
        self, client: Client, project: Project, owner: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("interfaces.web.sessions_list.PAGE", 2)
        made = [str(factories.submit(project, owner=owner).pk) for _ in range(5)]
        for order, expected in (("newest", made[::-1]), ("oldest", made)):
            seen: list[str] = []
            path: str | None = f"/?order={order}"
            while path:
                html = page(client, path)
                seen += re.findall(r'<a href="/sessions/([^/]+)/">', html)
                link = re.search(r'rel="next" href="([^"]+)"', html)
                path = "/" + unescape(link[1]) if link else None
            assert seen == expected

    def test_queries_do_not_grow_with_sessions(
        self,
        client: Client,
        project: Project,
        owner: User,
        django_assert_num_queries: DjangoAssertNumQueries,
        django_assert_max_num_queries: DjangoAssertNumQueries,
    ) -> None:
        factories.submit(project, owner=owner)
        with django_assert_max_num_queries(8) as few:
            page(client, "/")
        for _ in range(3):
            failed_chain(project, owner, 3)
        with django_assert_num_queries(len(few)):
            page(client, "/")

    def test_first_steps_are_told_where_nothing_is(self, client: Client) -> None:
        assert "reprise run busybox" in page(client, "/")


class TestSession:
    def test_the_chain_its_reasons_and_its_links(
        self, client: Client, project: Project, owner: User
    ) -> None:
        root, middle, tip = failed_chain(project, owner, 3)
        html = page(client, session_path(middle))
        text = prose(html)
        assert "attempt 2; 1 of 3 retries for failures used" in text
        assert "Retried as attempt 3" in text
        for label, session in (("Previous", root), ("Next", tip)):
            assert f'<a href="{session_path(session)}">{label} attempt</a>' in html
        assert "The container exited with code 1, so the cause is kernel_nonzero_exit." in text
        assert "1 of 3 retries for failures were used; this one pays from it." in text
        assert re.search(r"Attempt 1: waited [\d.]+ s, ERROR \(kernel nonzero exit\)", text)
        assert '<progress id="budget-1" value="1" max="3">' in html

    def test_a_chain_that_is_not_over_refreshes_itself(
        self, client: Client, project: Project, owner: User
    ) -> None:
        root, tip = failed_chain(project, owner, 2)
        for session in (root, tip):
            assert '<noscript><meta http-equiv="refresh"' in page(client, session_path(session))
        factories.settle(factories.start(tip), status="terminated", exit_code=0)
        for session in (root, tip):
            html = page(client, session_path(session))
            assert 'http-equiv="refresh"' not in html
            assert "data-live" not in html

    def test_only_the_end_of_a_log_is_shown(
        self, client: Client, project: Project, owner: User
    ) -> None:
        session = factories.submit(project, owner=owner)
        data = b"".join(b"\x1b[31mline %d\x1b[0m\n" % number for number in range(1000))
        LogChunk.objects.create(session_id=session.pk, offset=0, data=data)
        html = page(client, f"{session_path(session)}log/")
        assert ">line 500</span>" in html
        assert ">line 999</span>" in html
        assert "line 499<" not in html
        LogChunk.objects.create(session_id=session.pk, offset=len(data), data=b"x" * 2**20)
        assert len(page(client, f"{session_path(session)}log/")) < 2**18

    def test_queries_do_not_grow_with_attempts(
        self,
        client: Client,
        project: Project,
        owner: User,
        django_assert_num_queries: DjangoAssertNumQueries,
        django_assert_max_num_queries: DjangoAssertNumQueries,
    ) -> None:
        short = factories.settle(failed_chain(project, owner, 2)[-1])
        with django_assert_max_num_queries(14) as few:
            page(client, session_path(short))
        long = factories.settle(failed_chain(project, owner, 6)[-1])
        with django_assert_num_queries(len(few)):
            page(client, session_path(long))

    def test_text_of_users_and_clusters_is_escaped(
        self, client: Client, project: Project, owner: User
    ) -> None:
        session = factories.submit(
            project,
            owner=owner,
            name=SCRIPT,
            command=[SCRIPT],
            environ={SCRIPT: SCRIPT, "items": SCRIPT},
            labels={SCRIPT: SCRIPT},
            resources={SCRIPT: "1"},
            mounts=[{"path": f"/{SCRIPT}", "claim": SCRIPT}],
            pod_spec={"x": SCRIPT},
            image=SCRIPT,
            retry_policy=LATER,
        )
        LogChunk.objects.create(session_id=session.pk, offset=0, data=SCRIPT.encode())
        factories.settle(session, reason=SCRIPT, message=SCRIPT, node=SCRIPT)
        parts = ("", "steps/", "log/", "pod/", "what-if/")
        for path in ("/", *(f"{session_path(session)}{part}" for part in parts)):
            html = page(client, path)
            assert "alert(1)" in html
            assert "<script>" not in html
        response = client.get("/", {"search": SCRIPT, "project": SCRIPT, "status": SCRIPT})
        assert b"<script>" not in response.content


class TestActing:
    def test_cancel_ends_the_chain(self, client: Client, project: Project, owner: User) -> None:
        session = factories.submit(project, owner=owner)
        assert 'value="cancel"' in page(client, session_path(session))
        response = client.post(session_path(session), {"do": "cancel"}, follow=True)
        assert response.redirect_chain == [(session_path(session), 302)]
        assert "The chain is cancelled" in response.content.decode()
        session.refresh_from_db()
        assert session.status == Status.CANCELLED
        assert 'value="cancel"' not in page(client, session_path(session))

    def test_retry_shows_the_new_attempt(
        self, client: Client, project: Project, owner: User
    ) -> None:
        session = factories.settle(factories.submit(project, owner=owner))
        html = page(client, session_path(session))
        assert 'value="retry"' in html
        assert 'value="cancel"' not in html
        response = client.post(session_path(session), {"do": "retry"})
        child = Session.objects.get(parent=session)
        assert response["Location"] == session_path(child)
        assert child.retry_counters == {"manual": 1}

    def test_a_waiting_retry_can_be_brought_forward_or_cancelled(
        self, client: Client, project: Project, owner: User
    ) -> None:
        session = factories.settle(factories.submit(project, owner=owner, retry_policy=LATER))
        html = page(client, session_path(session))
        assert "Retry now" in html
        assert "Cancel the chain" in html
        client.post(session_path(session), {"do": "cancel"})
        session.refresh_from_db()
        assert session.retry_state == RetryState.CANCELLED
        assert "The retry was cancelled before it came due." in page(client, session_path(session))

    @pytest.mark.parametrize("act", ["cancel", "retry"])
    def test_refusals_are_told_and_change_nothing(
        self, client: Client, project: Project, owner: User, act: str
    ) -> None:
        session = factories.start(factories.submit(project, owner=owner))
        factories.settle(session, status="terminated", exit_code=0)
        response = client.post(session_path(session), {"do": act})
        assert "Conflict: " in messages_of(response)
        assert list(Session.objects.all()) == [session]

    @pytest.mark.parametrize("body", [{}, {"do": "delete"}, {"do": "\x00"}])
    def test_other_posts_are_refused(
        self, client: Client, project: Project, owner: User, body: dict[str, str]
    ) -> None:
        session = factories.submit(project, owner=owner)
        assert "can only cancel" in messages_of(client.post(session_path(session), body))

    @pytest.mark.parametrize("act", ["cancel", "retry"])
    def test_colleagues_see_no_buttons_and_are_refused(
        self, project: Project, owner: User, act: str
    ) -> None:
        session = factories.settle(factories.submit(project, owner=owner, retry_policy=LATER))
        for role in (Role.VIEWER, Role.MEMBER):
            colleague = signed_in(factories.user(project=project, role=role))
            assert 'name="do"' not in page(colleague, session_path(session))
            answer = colleague.post(session_path(session), {"do": act})
            assert "Not permitted: " in messages_of(answer)
        session.refresh_from_db()
        assert session.retry_state == RetryState.SCHEDULED
        maintainer = signed_in(factories.user(project=project, role=Role.MAINTAINER))
        assert f'value="{act}"' in page(maintainer, session_path(session))
        maintainer.post(session_path(session), {"do": act})
        session.refresh_from_db()
        assert session.retry_state != RetryState.SCHEDULED

    @pytest.mark.parametrize("act", ["cancel", "retry"])
    def test_strangers_and_visitors_change_nothing(
        self, project: Project, owner: User, act: str
    ) -> None:
        session = factories.settle(factories.submit(project, owner=owner, retry_policy=LATER))
        stranger = signed_in(factories.user(project=factories.project()))
        assert stranger.post(session_path(session), {"do": act}).status_code == 404
        assert Client().post(session_path(session), {"do": act}).status_code == 302
        session.refresh_from_db()
        assert session.retry_state == RetryState.SCHEDULED

    def test_a_forged_form_is_refused_and_ours_is_not(self, project: Project, owner: User) -> None:
        session = factories.submit(project, owner=owner)
        client = signed_in(owner, enforce_csrf_checks=True)
        assert client.post(session_path(session), {"do": "cancel"}).status_code == 403
        found = re.search(
            r'name="csrfmiddlewaretoken" value="([^"]+)"', page(client, session_path(session))
        )
        assert found is not None
        body = {"do": "cancel", "csrfmiddlewaretoken": found[1]}
        assert client.post(session_path(session), body).status_code == 302
        session.refresh_from_db()
        assert session.status == Status.CANCELLED


class TestWords:
    @pytest.mark.parametrize(
        ("seconds", "text"),
        [
            (None, ""),
            (-1, "0 s"),
            (0.25, "0.25 s"),
            (9.5, "9.5 s"),
            (59.9, "59 s"),
            (60, "1 min"),
            (3_725, "1 h 2 min"),
            (2 * 86_400 + 59, "2 d"),
        ],
    )
    def test_durations(self, seconds: float | None, text: str) -> None:
        assert duration(seconds) == text

    @pytest.mark.parametrize(
        ("number", "unit", "text"),
        [
            (1, "leases", "1 lease"),
            (0, "leases", "0 leases"),
            ("1", "held retries", "1 held retry"),
            ("10,000+", "waiting sessions", "10,000+ waiting sessions"),
        ],
    )
    def test_numbers_with_their_units(self, number: object, unit: str, text: str) -> None:
        assert counted(number, unit) == text

    @pytest.mark.parametrize(
        ("seconds", "past", "coming"),
        [(0, "just now", "now"), (1, "1 s ago", "now"), (-90, "just now", "in 1 min 30 s")],
    )
    def test_times_are_relative_with_the_exact_one_on_hover(
        self, seconds: int, past: str, coming: str
    ) -> None:
        later = START + timedelta(seconds=seconds)
        assert f">{past}</time>" in ago(START, later)
        assert f">{coming}</time>" in until(START, later)
        assert 'title="2026-03-01 12:00:00 UTC"' in ago(START, later)


class TestPicture:
    def attempt(self, number: int, status: str, **seconds: float) -> dict[str, Any]:
        times = {f"{name}_at": START + timedelta(seconds=at) for name, at in seconds.items()}
        absent = dict.fromkeys(("scheduled_at", "started_at", "finished_at"))
        return {"attempt": number, "status": status, "cause": None, **absent, **times}

    def test_every_span_has_its_place(self) -> None:
        first = self.attempt(0, "ERROR", created=0, scheduled=10, started=20, finished=50)
        second = self.attempt(1, "RUNNING", created=70, scheduled=80, started=90)
        now = START + timedelta(seconds=100)
        picture = chain_picture([first, second], None, now)
        drawn = [[(bar.kind, bar.x, bar.width) for bar in row.bars] for row in picture.rows]
        assert drawn == [
            [("waiting", 0, 10), ("preparing", 10, 10), ("running", 20, 30), ("delay", 50, 20)],
            [("waiting", 70, 10), ("preparing", 80, 10), ("running", 90, 10)],
        ]
        assert [tick.text for tick in picture.ticks] == ["0 s", "30 s", "1 min", "1 min 30 s"]

    def test_a_retry_that_waits_is_drawn_until_it_is_due(self) -> None:
        only = self.attempt(0, "ERROR", created=0, started=0, finished=25)
        due_at = START + timedelta(seconds=100)
        picture = chain_picture([only], due_at, START + timedelta(seconds=30))
        assert [(bar.kind, bar.width) for bar in picture.rows[0].bars] == [
            ("running", 25),
            ("delay", 75),
        ]
        assert picture.rows[0].text == ("Attempt 1: ran 25 s, ERROR, then a delay of 1 min 15 s.")

    def test_clocks_that_disagree_leave_nothing_outside(self) -> None:
        skewed = self.attempt(0, "ERROR", created=0, scheduled=300, started=-300, finished=10)
        picture = chain_picture([skewed], None, START)
        for bar in picture.rows[0].bars:
            assert 0 <= bar.x <= bar.x + bar.width <= 100


class TestAssets:
    # Of what is vendored as it came, a browser says what it fetches: test_graphql_page.
    FILES = sorted(
        [
            *Path(settings.BASE_DIR, "interfaces/templates").rglob("*.html"),
            *Path(settings.BASE_DIR, "interfaces/static/reprise").glob("*.*"),
        ]
    )

    @pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
    def test_nothing_is_fetched_from_elsewhere_or_inline(self, path: Path) -> None:
        text = path.read_text()
        assert not re.search(
            r"""(?:src|href|url\(|@import|import)[=\s(]*["']?(?:https?:)?//""", text
        )
        assert not re.search(r"""\son[a-z]+\s*=\s*["']""", text), "an inline event handler"
        assert "<style" not in text
        assert not re.search(r"""\sstyle\s*=""", text)

    def test_every_asset_of_a_page_is_served(self, client: Client) -> None:
        assets = set(re.findall(r'"(/static/[^"]+)"', page(client, "/")))
        assert len(assets) == 6
        for asset in assets:
            response = client.get(asset)
            assert response.status_code == 200, asset
            response.close()

    def test_the_admin_has_the_colours_of_the_pages(self) -> None:
        tokens = Path(settings.BASE_DIR, "interfaces/static/reprise/tokens.css").read_text()
        defined = set(re.findall(r"(--[a-z]+-\d+):", tokens))
        theme: Any = settings.UNFOLD
        used = {shade for scale in theme["COLORS"].values() for shade in scale.values()}
        assert used == {f"var({name})" for name in defined}

    def test_our_own_scripts_stay_few(self) -> None:
        folder = Path(settings.BASE_DIR, "interfaces/static/reprise")
        assert sum(len(path.read_text().splitlines()) for path in folder.glob("*.js")) < 600

    def test_the_page_of_a_failure_needs_nothing(self) -> None:
        assert "The server failed" in render_to_string("500.html")
