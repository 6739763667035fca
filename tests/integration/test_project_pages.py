"""The pages of a project: who may see and change what, and that the forms do what REST does."""

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from retry.engine.decide import Mode
from retry.policies.inline import Bounds, InlinePolicy
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.models import AuditEntry, Project, RetryDefaults, Session, SessionEvent
from sessions_app.models.tenants import Role
from sessions_app.services.resources.retry_config import retry_defaults_put, retry_settings_put
from tests import factories
from tests.pages import lead, project, read, signed_in, viewer, words

__all__ = ["lead", "project", "viewer"]

pytestmark = pytest.mark.django_db
AT = "/projects/acme/work/"


def statements(client: Client, path: str) -> int:
    client.get(path)
    with CaptureQueriesContext(connection) as captured:
        assert client.get(path).status_code == 200
    return len(captured)


def version(client: Client, path: str = AT) -> str:
    found = re.search(r'name="version" value="([^"]*)"', client.get(path).content.decode())
    assert found
    return found[1]


def put(client: Client, **sent: Any) -> Any:
    """Send the form of the defaults, as it was just read."""
    return client.post(AT, {"version": version(client), **sent}, follow=True)


class TestWhoMaySee:
    def test_the_list_has_the_projects_of_the_visitor(self, lead: Client) -> None:
        factories.project("secret", domain="other")
        text = read(lead, "/projects/")
        assert "acme/work" in text
        assert "secret" not in text

    def test_a_stranger_finds_nothing(self, project: Project) -> None:
        stranger = signed_in(factories.user("sam"))
        assert stranger.get(AT).status_code == 404
        assert "You are a member of no project." in read(stranger, "/projects/")

    def test_whoever_is_not_signed_in_is_asked_to(self, project: Project) -> None:
        response = Client().get(AT)
        assert response.status_code == 302
        assert response["Location"].startswith("/login/")

    def test_a_viewer_reads_and_cannot_change(self, project: Project, viewer: Client) -> None:
        page = viewer.get(AT).content.decode()
        assert "<button>Show what it would get" not in page
        assert 'name="max_retries"' not in page
        assert viewer.post(AT, {"set_max_retries": "1", "max_retries": "9"}).status_code == 403
        assert viewer.post(f"{AT}would-get/", {"body": "image: a"}).status_code == 403
        assert not RetryDefaults.objects.exists()


class TestDefaults:
    def test_each_field_shows_its_value_and_its_layer(self, project: Project, lead: Client) -> None:
        retry_defaults_put(
            ConfigScope(domain=project.domain),
            policy=InlinePolicy(retry_delay=45),
            bounds=Bounds(max_retries=9),
            by="root",
        )
        put(lead, set_max_retries="1", max_retries="4", bound_max_chain_duration="600")
        page = lead.get(AT).content.decode()
        for name, value, layer in (
            ("max_retries", "4", "project"),
            ("retry_delay", "45", "domain"),
            ("backoff", "fixed", "shipped"),
        ):
            assert f'data-effective="{name}">{value}<' in page
            assert f'data-layer="{name}">{layer}<' in page
        assert "at most 9 (domain)" in page
        row = RetryDefaults.objects.get(project=project)
        assert (row.policy, row.bounds) == ({"max_retries": 4}, {"max_chain_duration": 600.0})
        assert AuditEntry.objects.filter(actor="lea").exists()

    @pytest.mark.parametrize(
        ("sent", "told"),
        [
            ({"set_max_retries": "1", "max_retries": "-1"}, "must be between 0 and"),
            ({"set_max_retries": "1", "max_retries": "many"}, "whole number"),
            ({"max_retries": "3"}, "Tick the box beside it"),
            ({"bound_max_retries": "x"}, "whole number"),
            ({"set_max_retries": "1", "max_retries": "8", "bound_max_retries": "7"}, "bound of 7"),
        ],
    )
    def test_a_mistake_is_told_at_its_field(
        self, lead: Client, sent: dict[str, str], told: str
    ) -> None:
        response = put(lead, **sent)
        assert response.status_code == 400
        page = response.content.decode()
        assert re.search(rf'class="error">[^<]*{told}', page), words(response)
        assert not RetryDefaults.objects.exists()

    def test_an_edit_of_somebody_else_is_not_overwritten(
        self, project: Project, lead: Client
    ) -> None:
        before = version(lead)
        retry_defaults_put(
            ConfigScope(project=project),
            policy=InlinePolicy(max_retries=2),
            bounds=Bounds(),
            by="b",
        )
        sent = {"version": before, "set_max_retries": "1", "max_retries": "5"}
        response = lead.post(AT, sent)
        assert response.status_code == 400
        assert "somebody else has changed the defaults" in words(response)
        assert RetryDefaults.objects.get().policy == {"max_retries": 2}
        assert put(lead, **{**sent, "version": version(lead)}).status_code == 200
        assert RetryDefaults.objects.get().policy == {"max_retries": 5}


class TestWouldGet:
    def ask(self, client: Client, body: str) -> Any:
        return client.post(f"{AT}would-get/", {"body": body}, headers={"HX-Request": "true"})

    def test_it_is_what_a_submission_gets_and_leaves_nothing(
        self, project: Project, lead: Client
    ) -> None:
        factories.named_policy("steady", project=project)
        factories.attach(factories.default_queue(project), "steady")
        put(lead, set_retry_delay="1", retry_delay="12")
        retry_settings_put(ConfigScope(project=project), mode=Mode.PAUSED, by="root")
        sessions, events = Session.objects.count(), SessionEvent.objects.count()
        response = self.ask(lead, "image: a\nretry_policy: {max_retries: 7}")
        text = words(response)
        assert response.status_code == 200
        assert "<html" not in response.content.decode()
        assert "max_retries 7 session" in text
        assert "retry_delay 12 project" in text
        assert "1. steady" in text
        assert "named by the queue default" in text
        assert "It would wait: its project has no executor" in text
        assert "retries are paused here" in text
        assert (Session.objects.count(), SessionEvent.objects.count()) == (sessions, events)

    def test_a_default_over_a_bound_shows_what_is_left_of_it(
        self, project: Project, lead: Client
    ) -> None:
        put(lead, bound_max_retries="0", set_max_retries="")
        scope = ConfigScope(domain=project.domain)
        retry_defaults_put(scope, policy=InlinePolicy(max_retries=6), bounds=Bounds(), by="root")
        assert "max_retries 6 domain 0 (project)" in words(self.ask(lead, "image: a"))

    @pytest.mark.parametrize(
        ("body", "told"),
        [
            ("image: a\nretry_policy:\n  max_retries: 9", "retry_policy.max_retries (line 3): "),
            ("image: [", "is not valid YAML"),
            ("imag: a", "imag (line 1)"),
            ("image: a\nqueue: none", "queue (line 2): no queue none"),
            ("project: acme/other\nimage: a", "project (line 1): must be 'acme/work'"),
            ("image: a\nretry_policies: [gone]", "unknown retry policies: gone"),
            ("image: a\nresources: {cpu: much}", "resources (line 2)"),
            ("image: a\nresources: {cpu: 80}", "Quota exceeded"),
        ],
    )
    def test_a_mistake_is_told_with_its_line(
        self, project: Project, lead: Client, body: str, told: str
    ) -> None:
        put(lead, bound_max_retries="5")
        factories.quotas(project, cpu=8)
        response = self.ask(lead, body)
        assert response.status_code == 200
        assert told in words(response)
        assert not Session.objects.exists()

    def test_it_takes_as_many_statements_with_more_around(
        self, project: Project, lead: Client
    ) -> None:
        def statements_of() -> int:
            with CaptureQueriesContext(connection) as captured:
                self.ask(lead, "image: a")
            return len(captured)

        statements_of()
        few = statements_of()
        for name in ("one", "two"):
            factories.named_policy(name, project=project)
            factories.attach(factories.queue(project, name), name)
        assert statements_of() == few <= 40

    def test_without_javascript_it_is_a_page(self, lead: Client) -> None:
        response = lead.post(f"{AT}would-get/", {"body": "image: a"})
        assert "What would my session get" in words(response)
        assert "<html" in response.content.decode()


@pytest.mark.parametrize(("path", "most"), [("/projects/", 5), (AT, 10)])
def test_pages_take_a_fixed_number_of_statements(
    project: Project, lead: Client, path: str, most: int
) -> None:
    assert statements(lead, path) <= most
    for name in ("one", "two"):
        factories.project(name)
        factories.queue(project, name)
        factories.named_policy(f"policy-{name}", project=project)
    assert statements(lead, path) <= most


ODD = (
    *("/projects/a%00/work/", f"{AT}policies/at/a%00b/", f"{AT}queues/at/%00/"),
    *(f"{AT}policies/at/steady/revisions/{2**31}/", f"{AT}policies/at/steady/revisions/0/"),
    *(f"{AT}members/{2**80}/", f"{AT}tokens/%00/", "/projects/acme/work%E2%80%8B/"),
)


@pytest.mark.parametrize("path", ODD)
def test_odd_addresses_are_not_found(project: Project, path: str) -> None:
    factories.named_policy("steady", project=project)
    admin = signed_in(factories.user("dom", domain=project.domain, role=Role.DOMAIN_ADMIN))
    assert admin.get(path).status_code == 404


@pytest.mark.parametrize(
    "query",
    [
        *("policies/?after=%00&of=%00", "policies/?after=zzz", "queues/?at=-1", "members/?at=9e9"),
        *("tokens/?at=99", "policies/at/steady/?revision=99999999999&of=%FF"),
    ],
)
def test_odd_queries_are_pages(project: Project, lead: Client, query: str) -> None:
    factories.named_policy("steady", project=project)
    read(lead, AT + query)


def test_nothing_changes_if_nothing_was_changed(project: Project, lead: Client) -> None:
    before = version(lead, f"{AT}queues/at/default/")
    sent = {"version": before, "priority_factor": "1", "is_default": "1"}
    assert lead.post(f"{AT}queues/at/default/", sent).status_code == 302
    assert version(lead, f"{AT}queues/at/default/") == before
