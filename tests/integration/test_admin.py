"""The admin as a whole: who enters, that every page works, and what each costs."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib import admin
from django.test import Client
from django.utils import timezone

from scheduler.models import Executor, Node
from sessions_app.models import Membership
from sessions_app.models.tenants import Role
from sessions_app.services.chains.manual_retry import sessions_retry
from tests import factories
from tests.audit import audited_acts
from tests.integration.admin import World, operator, queries, records, text_of, url

KINDS = [model._meta.label_lower.replace(".", "_") for model in admin.site._registry]
RARE = {"django_celery_beat_clockedschedule", "django_celery_beat_solarschedule"}
READ_ONLY = {
    "sessions_app_session",
    "sessions_app_retrydecision",
    "sessions_app_auditentry",
    "scheduler_lease",
    "scheduler_node",
    "scheduler_preemption",
    "reprise_heartbeat",
    "reprise_parkedtask",
    "sessions_app_breaker",
    "sessions_app_failuresignature",
}
OPENED = {"sessions_app_breaker"}
"""Of these, what operators make, though they do not change it."""


@pytest.fixture
def client() -> Client:
    return operator()


@pytest.mark.parametrize("staff", [False, True])
def test_only_cluster_admins_enter(staff: bool) -> None:
    project = factories.project("work", domain="acme")
    member = factories.user("mia", domain=project.domain, role=Role.DOMAIN_ADMIN)
    member.is_staff = staff
    member.save()
    client = Client()
    client.force_login(member)
    for kind in ("auth_user", "sessions_app_session", "sessions_app_retrysettings"):
        response = client.get(url(kind))
        assert (response.status_code, response["Location"]) == (
            302,
            f"/admin/login/?next={url(kind)}",
        )
    assert client.get("/admin/").status_code == 302
    answer = client.post("/admin/login/", {"username": "mia", "password": factories.PASSWORD})
    assert "Only cluster admins may log in here." in text_of(answer)
    assert b"/admin/" not in client.get("/").content


def test_requests_of_others_change_nothing() -> None:
    world = World(1)
    session = world.chain()
    client = Client()
    client.force_login(world.owner)
    failure = factories.failure(session)
    node, before = Node.objects.get(), audited_acts().count()
    for address, sent in (
        (f"/admin/sessions_app/session/{session.pk}/act/", {"do": "retry"}),
        (url("sessions_app_retrysettings", "add") + "?cluster=1", {"mode": "on"}),
        (url("sessions_app_domain", "add"), {"name": "mine"}),
        (f"/admin/scheduler/node/{node.pk}/act/", {"do": "quarantine", "reason": "mine"}),
        (url("sessions_app_breaker", "add"), {"signature": "0123456789ab"}),
        (
            url("sessions_app_failuresignature"),
            {"action": "mute", "_selected_action": [failure.pk]},
        ),
    ):
        answer = client.post(address, sent)
        assert answer["Location"].startswith("/admin/login/")
    assert audited_acts().count() == before


def test_a_cluster_admin_signs_in_and_one_who_was_switched_off_does_not() -> None:
    root = factories.user("root", superuser=True)
    client = Client()
    signing_in = {"username": "root", "password": factories.PASSWORD, "next": "/admin/"}
    assert client.post("/admin/login/", signing_in)["Location"] == "/admin/"
    assert client.get("/admin/").status_code == 200
    root.is_active = False
    root.save()
    assert client.get("/admin/").status_code == 302


def test_every_page_answers_while_there_is_nothing(client: Client) -> None:
    assert client.get("/admin/").status_code == 200
    for kind in KINDS:
        assert client.get(url(kind)).status_code == 200, kind


def test_every_list_and_page_takes_as_many_statements_for_20_rows_as_for_2(client: Client) -> None:
    world = World(2)
    pages = ["/admin/", *(url(kind) for kind in KINDS)]
    few = {page: queries(client, page) for page in pages}
    shown = {kind: record for kind, record in records().items() if record is not None}
    assert set(KINDS) - set(shown) <= RARE
    singles = {kind: url(kind, "change", record.pk) for kind, record in shown.items()}
    few |= {page: queries(client, page) for page in singles.values()}
    world.grow(18)
    many = {page: queries(client, page, seen=True) for page in few}
    assert many == few
    assert {page: count for page, count in many.items() if count > 14} == {}


def test_a_page_takes_as_many_statements_for_20_of_what_belongs_to_it(client: Client) -> None:
    world = World(0)
    root = world.chain("train")
    pages = {
        "chain": url("sessions_app_session", "change", root.pk),
        "decision": url("sessions_app_retrydecision", "change", root.pk),
        "executor": url("scheduler_executor", "change", world.executor.pk),
        "domain": url("sessions_app_domain", "change", world.project.domain_id),
        "user": url("auth_user", "change", world.owner.pk),
    }

    def grow(count: int) -> dict[str, int]:
        for number in range(count):
            tip = factories.tip(root)
            sessions_retry({tip.pk: root.pk}, by="root")
            factories.settle(factories.start(factories.tip(root)))
            factories.submit(world.project)
            project = factories.project(domain="acme")
            world.executor.projects.add(project)
            Membership.objects.create(user=world.owner, project=project, role=Role.VIEWER)
            world.agent.nodes.append({"name": f"node-{number}"})
        world.agent.lease()
        return {name: queries(client, page) for name, page in pages.items()}

    assert grow(2) == grow(18)
    assert client.get(pages["chain"]).content.count(b"kernel nonzero exit") >= 20


def test_pages_ask_nobody_else_for_anything(client: Client) -> None:
    World(1)
    pages = ["/admin/", "/admin/login/", *(url(kind) for kind in KINDS)]
    pages += [url(kind, "change", r.pk) for kind, r in records().items() if r is not None]
    for page in pages:
        text = client.get(page).content.decode()
        for address in re.findall(r"""(?:src|href|action)\s*=\s*["']([^"']*)""", text):
            assert not re.match(r"(https?:)?//", address), (page, address)


def test_rows_of_services_can_be_read_but_not_changed(client: Client) -> None:
    World(1)
    before = {kind: columns(record) for kind, record in records().items() if kind in READ_ONLY}
    for kind, record in records().items():
        if kind not in READ_ONLY:
            continue
        key = record.pk
        adding = 200 if kind in OPENED else 403
        assert client.get(url(kind, "add")).status_code == adding, kind
        assert client.post(url(kind, "add"), {"actor": "nobody"}).status_code == adding, kind
        assert client.post(url(kind, "delete", key), {"post": "yes"}).status_code == 403, kind
        sent = {"status": "TERMINATED", "actor": "nobody"}
        assert client.post(url(kind, "change", key), sent).status_code == 403, kind
        chosen = {"action": "delete_selected", "_selected_action": key, "post": "yes"}
        assert client.post(url(kind), chosen).status_code < 500
    after = {kind: columns(record) for kind, record in records().items() if kind in READ_ONLY}
    assert after == before


def columns(record: Any) -> dict[str, Any]:
    return {field.attname: getattr(record, field.attname) for field in record._meta.concrete_fields}


JUNK = [
    "?q=%00", "?q=%ED%A0%80", "?p=x", "?p=99999", "?o=9.x", "?status=nonsense", "?e=1",
    "?project__id__exact=zzz", "?project__id__exact=99999999999999999999999", "?all=",
    "?object_type=%00", "?door=%00", "?author=%00", "?id__gt=x", "?q=" + "x" * 3000,
    "?_facets=True",
]  # fmt: skip


@pytest.mark.parametrize("query", JUNK)
def test_junk_in_an_address_is_never_an_error_of_ours(client: Client, query: str) -> None:
    for kind in KINDS:
        assert client.get(url(kind) + query).status_code < 500, (kind, query)


@pytest.mark.parametrize("key", ["x", "0", "99999999999999999999", "%00", "_3C_", "-1"])
def test_a_record_that_is_not_there_is_said_to_be_missing(client: Client, key: str) -> None:
    for kind in KINDS:
        for page in ("change", "delete", "history"):
            address = url(kind, page, 1).replace("/1/", f"/{key}/")
            assert client.get(address).status_code in {302, 403, 404}, address


@pytest.mark.parametrize("query", ["term=%00", "term=x&page=y", "term=" + "9" * 3000, "page=0"])
@pytest.mark.parametrize("field", ["queue&field_name=project", "membership&field_name=user"])
def test_junk_in_a_choice_is_never_an_error_of_ours(client: Client, field: str, query: str) -> None:
    address = f"/admin/autocomplete/?app_label=sessions_app&model_name={field}&{query}"
    assert client.get(address).status_code < 500


def test_choices_are_found_by_the_beginning_of_their_names(client: Client) -> None:
    World(3)
    address = "/admin/autocomplete/?app_label=sessions_app&model_name=queue&field_name=project"
    found = client.get(f"{address}&term=n").json()["results"]
    assert sorted(choice["text"] for choice in found) == ["n1/n1", "n2/n2", "n3/n3"]


def test_a_page_of_the_themes_search_that_is_no_number_is_no_error(client: Client) -> None:
    assert client.get("/admin/search/?s=x&page=zzz").status_code == 404


def test_the_first_page_counts_what_waits_runs_and_fails(client: Client) -> None:
    World(3)
    page = client.get("/admin/")
    text = text_of(page)
    assert page.context["retries"].scheduled.value == 3
    assert page.context["live"].value == 3
    assert "kernel nonzero exit" in text
    assert [executor.name for executor in page.context["silent"]] == ["n1", "n2", "n3"]
    assert "3 of 4 are silent" in text
    assert "n1/n1 paused" in text


@pytest.mark.parametrize(
    ("silent", "heard", "words"),
    [
        (0, 1, "The only executor sent a heartbeat within the last minute."),
        (0, 2, "All 2 sent a heartbeat within the last minute."),
        (1, 1, "1 of 2 is silent; it gets no leases."),
        (2, 1, "2 of 3 are silent; they get no leases."),
    ],
)
def test_executors_are_counted_in_words(
    client: Client, silent: int, heard: int, words: str
) -> None:
    for number in range(silent + heard):
        seen = timezone.now() - timedelta(days=number < silent)
        Executor.objects.create(name=f"e{number}", last_seen_at=seen)
    assert words in " ".join(text_of(client.get("/admin/")).split())


def test_every_file_of_the_theme_is_served_by_us() -> None:
    assert settings.STATIC_URL.startswith("/")
    css = Path(settings.BASE_DIR, "interfaces/static/reprise/admin.css").read_text()
    assert "url(" not in css
