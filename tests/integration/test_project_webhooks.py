"""The webhooks of a project on its pages."""

import re
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from sessions_app.models import Project, WebhookDelivery, WebhookEndpoint
from sessions_app.models.tenants import Role
from sessions_app.services.secrets.stored import secret_read
from sessions_app.webhooks.endpoints import webhook_create
from tests import factories
from tests.integration.test_project_pages import statements
from tests.pages import lead, project, read, signed_in, viewer, words

__all__ = ["lead", "project", "viewer"]
pytestmark = pytest.mark.django_db
AT = "/projects/acme/work/webhooks/"
URL = "https://example.com/hook"


@pytest.fixture
def webhook(project: Project) -> WebhookEndpoint:
    return webhook_create(project=project, url=URL, event_types=[], description="", by="root")


def sent(webhook: WebhookEndpoint, number: int, state: str = "failed") -> WebhookDelivery:
    return WebhookDelivery.objects.create(
        endpoint=webhook,
        event_id=number,
        type="session.error",
        state=state,
        finished_at=timezone.now(),
        response_code=500,
        response_excerpt=f"answer {number}",
    )


def act(client: Client, webhook: WebhookEndpoint, name: str, **more: str) -> str:
    path = f"{AT}{webhook.pk}/act/"
    response = client.post(path, {"act": name, **more}, follow=True)
    assert response.status_code == 200
    return words(response)


def shown_once(response: Any) -> str:
    (secret,) = re.findall(r'id="secret" tabindex="0">([^<]+)<', response.content.decode())
    return str(secret)


class TestWebhooks:
    def test_a_lead_makes_changes_pauses_and_deletes_one(
        self, project: Project, lead: Client
    ) -> None:
        assert "There are no webhooks." in read(lead, AT)
        made = lead.post(AT, {"url": URL, "event_types": "session.error\nsession.retry_*"})
        found = WebhookEndpoint.objects.get()
        assert shown_once(made) == secret_read(found.secret)
        assert found.event_types == ["session.error", "session.retry_*"]
        path = f"{AT}{found.pk}/"
        saved = lead.post(path, {"url": f"{URL}2", "description": "mine"}, follow=True)
        assert "The webhook is saved." in words(saved)
        assert "say why it is paused" in act(lead, found, "pause")
        assert "Paused." in act(lead, found, "pause", reason="moving")
        found.refresh_from_db()
        assert (found.url, found.event_types, found.paused_reason) == (f"{URL}2", [], "moving")
        assert "Resumed." in act(lead, found, "resume")
        assert "A test message is on its way." in act(lead, found, "ping")
        assert "Nothing was done." in act(lead, found, "fly")
        fresh = lead.post(f"{path}act/", {"act": "secret"})
        found.refresh_from_db()
        assert shown_once(fresh) == secret_read(found.secret)
        assert "Yes, delete it" in read(lead, f"{path}delete/")
        lead.post(f"{path}delete/")
        assert not WebhookEndpoint.objects.exists()

    @pytest.mark.parametrize(
        ("form", "told"),
        [
            ({"url": "ftp://example.com"}, "http"),
            ({"url": ""}, "required"),
            ({"url": "https://127.0.0.1/"}, "."),
            ({"url": URL, "event_types": "session.flew"}, "no events of the type session.flew"),
        ],
    )
    def test_a_mistake_is_told_at_its_field(
        self, lead: Client, form: dict[str, str], told: str
    ) -> None:
        refused = lead.post(AT, form)
        assert refused.status_code == 400
        assert re.search(rf'class="error">[^<]*{told}', refused.content.decode()), words(refused)
        assert not WebhookEndpoint.objects.exists()

    def test_only_maintainers_see_them(self, viewer: Client, webhook: WebhookEndpoint) -> None:
        stranger = signed_in(factories.user("sam"))
        paths = (AT, f"{AT}{webhook.pk}/", f"{AT}{webhook.pk}/deliveries/")
        for path in paths:
            assert viewer.get(path).status_code == 403
            assert stranger.get(path).status_code == 404
        assert "Webhooks" not in read(viewer, "/projects/acme/work/members/")
        for name in ("act/", "redeliver/", "delete/"):
            assert viewer.post(f"{AT}{webhook.pk}/{name}", {"act": "ping"}).status_code == 403
        assert not WebhookDelivery.objects.exists()

    def test_one_of_another_project_is_not_found_here(
        self, project: Project, webhook: WebhookEndpoint
    ) -> None:
        other = factories.project("other")
        both = factories.user("both", project=project, role=Role.MAINTAINER)
        both.reprise_memberships.create(project=other, role=Role.MAINTAINER)
        path = f"/projects/acme/other/webhooks/{webhook.pk}/"
        client = signed_in(both)
        assert client.get(path).status_code == 404
        assert client.post(f"{path}delete/").status_code == 404
        assert client.post(f"{path}act/", {"act": "ping"}).status_code == 404


class TestDeliveries:
    def test_they_are_listed_filtered_and_sent_again(
        self, lead: Client, webhook: WebhookEndpoint
    ) -> None:
        failed = sent(webhook, 1)
        sent(webhook, 2, "delivered")
        path = f"{AT}{webhook.pk}/"
        text = read(lead, path)
        assert "answer 1" in text
        assert "answer 2" in text
        assert "answer 2" not in read(lead, f"{path}deliveries/?state=failed")
        assert "It is sent again" in act(lead, webhook, "again", delivery=str(failed.pk))
        assert "Not done: no such delivery" in act(lead, webhook, "again", delivery="x")
        assert "Not done: no delivery 999" in act(lead, webhook, "again", delivery="999")
        sent(webhook, 3)
        again = lead.post(f"{path}redeliver/", {"since": "2020-01-01T00:00"}, follow=True)
        assert "Sent again: 1." in words(again)
        refused = lead.post(f"{path}redeliver/", {"since": "soon"})
        assert refused.status_code == 400

    def test_a_page_goes_on_from_the_last_one(self, lead: Client, webhook: WebhookEndpoint) -> None:
        for number in range(51):
            sent(webhook, number)
        path = f"{AT}{webhook.pk}/deliveries/"
        first = lead.get(path).content.decode()
        (following,) = re.findall(r'rel="next" href="([^"]+)"', first)
        rest = read(lead, following)
        assert "answer 0" in rest
        assert "answer 1 " not in rest
        assert "data-live" not in lead.get(following).content.decode()

    def test_a_part_alone_is_for_htmx(self, lead: Client, webhook: WebhookEndpoint) -> None:
        path = f"{AT}{webhook.pk}/deliveries/"
        alone = lead.get(path, headers={"HX-Request": "true"}).content.decode()
        assert alone.lstrip().startswith('<div id="deliveries"')


@pytest.mark.parametrize(("path", "most"), [("", 6), ("one/", 7)])
def test_pages_take_a_fixed_number_of_statements(
    lead: Client, webhook: WebhookEndpoint, path: str, most: int
) -> None:
    where = AT + (f"{webhook.pk}/" if path else "")
    few = statements(lead, where)
    for number in range(5):
        sent(webhook, number)
        lead.post(AT, {"url": f"{URL}{number}"})
    assert statements(lead, where) == few <= most
