"""Webhooks over REST, with the SDK and on the command line."""

import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import Result
from reprise_client import ApiError, Client
from reprise_client.cli import webhook as command_module
from reprise_client.cli.main import app
from typer.testing import CliRunner

from sessions_app.models import Project, WebhookDelivery, WebhookEndpoint
from sessions_app.models.tenants import Role
from sessions_app.services.secrets.stored import secret_read
from sessions_app.tasks import deliver_webhooks
from sessions_app.webhooks.url_guard import Guard
from tests import factories
from tests.agent import Api
from tests.audit import audited_acts
from tests.receiver import Receiver, Says, receiving

URL = "https://example.com/hook"


@pytest.fixture
def api(at: Project) -> Api:
    return Api(factories.token(factories.user("may", project=at, role=Role.MAINTAINER)))


@pytest.mark.django_db
def test_one_from_its_making_to_its_end(at: Project, api: Api) -> None:
    made = api.post("webhooks/", {"project": "acme/work", "url": URL, "description": "mine"})
    body = made.json()
    assert (made.status_code, made["Location"]) == (
        201, f"http://testserver/api/v2/webhooks/{body['id']}/",
    )  # fmt: skip
    secret = body.pop("secret")
    assert secret.startswith("whsec_")
    path = f"webhooks/{body['id']}/"
    assert api.read(path) == body
    assert api.read("webhooks/")["results"] == [body]
    assert api.read("webhooks/?project=acme/work&paused=false")["results"] == [body]
    assert api.read("webhooks/?paused=true")["results"] == []
    changed = api.call("PATCH", path, {"event_types": ["session.error", "session.error"]}).json()
    assert changed == {**body, "event_types": ["session.error"]}
    paused = api.post(f"{path}pause/", {"reason": "moving"}).json()
    assert (paused["paused_reason"], paused["paused_at"] is not None) == ("moving", True)
    assert api.post(f"{path}pause/", {"reason": "again"}).json() == paused
    assert api.post(f"{path}resume/").json() == changed
    renewed = api.post(f"{path}secret/", {"overlap": 60}).json()
    assert secret != renewed["secret"] == secret_read(WebhookEndpoint.objects.get().secret)
    assert renewed["previous_secret_until"] is not None
    assert api.post(f"{path}secret/", {"overlap": 0}).json()["previous_secret_until"] is None
    ping = api.post(f"{path}ping/")
    assert (ping.status_code, ping.json()["state"]) == (202, "waiting")
    delivery = f"{path}deliveries/{ping.json()['id']}/"
    assert ping["Location"] == f"http://testserver/api/v2/{delivery}"
    assert api.read(delivery) == ping.json() == api.read(f"{path}deliveries/")["results"][0]
    assert api.call("DELETE", path).status_code == 204
    assert api.get(path).status_code == api.get(delivery).status_code == 404
    assert not WebhookDelivery.objects.exists()
    acts = audited_acts().filter(object_type="webhook").order_by("id")
    assert [entry.action for entry in acts] == [
        f"webhook.{act}"
        for act in ("create", "change", "pause", "resume", "new_secret", "new_secret", "delete")
    ]
    assert secret not in str([entry.data for entry in acts])


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "url"),
        ({"url": ""}, "url"),
        ({"url": 7}, "url"),
        ({"url": "https://" + "a" * 2000}, "url"),
        ({"url": f"https://example.com/{'a' * 1990}"}, "url"),
        ({"url": "http://example.com/"}, "url"),
        ({"url": "https://127.0.0.1/"}, "url"),
        ({"url": "https://[::ffff:169.254.169.254]/"}, "url"),
        ({"url": "https://me:secret@example.com/"}, "url"),
        ({"url": URL, "event_types": ["session.nonsense"]}, "event_types"),
        ({"url": URL, "event_types": "session.error"}, "event_types"),
        ({"url": URL, "event_types": [""]}, "event_types[0]"),
        ({"url": URL, "description": "x" * 301}, "description"),
        ({"url": URL, "secret": "whsec_mine"}, "secret"),
    ],
)
def test_impossible_webhooks_are_refused(api: Api, body: dict[str, Any], field: str) -> None:
    refused = api.post("webhooks/", {"project": "acme/work", **body})
    assert refused.status_code == 400
    (name,) = refused.json()["errors"]
    assert name.replace(".0", "[0]") == field
    assert not WebhookEndpoint.objects.exists()


@pytest.mark.django_db
def test_impossible_requests_of_a_webhook_are_refused(api: Api) -> None:
    path = f"webhooks/{api.post('webhooks/', {'project': 'acme/work', 'url': URL}).json()['id']}/"
    ping = api.post(f"{path}ping/").json()["id"]
    for call, body, status in (
        ("redeliver/", {}, 400),
        ("redeliver/", {"delivery": 1, "since": "2030-01-31T12:00:00Z"}, 400),
        ("redeliver/", {"since": "yesterday"}, 400),
        ("redeliver/", {"since": "2030-01-31T12:00:00Z", "state": "waiting"}, 400),
        ("redeliver/", {"delivery": 2**63}, 400),
        ("redeliver/", {"delivery": ping + 1}, 404),
        ("redeliver/", {"delivery": ping}, 409),
        ("pause/", {}, 400),
        ("ping/", {"x": 1}, 400),
        ("resume/", {"x": 1}, 400),
        ("secret/", {"overlap": -1}, 400),
    ):
        assert api.post(path + call, body).status_code == status, (call, body)
    assert api.get(f"{path}deliveries/{2**70}/").status_code == 404
    assert api.get(f"{path}deliveries/?cursor=junk").status_code == 404
    assert api.get(f"{path}deliveries/?state=gone").status_code == 400
    assert api.call("PATCH", path, {"url": "https://10.0.0.1/"}).status_code == 400
    assert WebhookEndpoint.objects.get().url == URL


@pytest.mark.django_db
def test_lists_show_those_of_the_projects_that_one_maintains(at: Project, api: Api) -> None:
    api.post("webhooks/", {"project": "acme/work", "url": URL})
    other = factories.project("other", domain="acme")
    for who, count in (
        (factories.user(project=at, role=Role.MEMBER), 0),
        (factories.user(project=other, role=Role.MAINTAINER), 0),
        (factories.user(domain=at.domain, role=Role.DOMAIN_ADMIN), 1),
        (factories.user(superuser=True), 1),
    ):
        assert len(Api(factories.token(who)).read("webhooks/")["results"]) == count


Reprise = Callable[..., Result]


@pytest.fixture
def receiver(settings: Any) -> Iterator[Receiver]:
    settings.WEBHOOK_GUARD = Guard.of(["127.0.0.0/8"], [], http=True)
    with receiving() as made:
        yield made


@pytest.fixture
def token(at: Project, owner: Any) -> str:
    return factories.token(owner, project=at)


@pytest.fixture
def reprise(token: str, live_server: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Return a call of `reprise webhook` with this token, which returns what it prints."""
    monkeypatch.setenv("REPRISE_URL", live_server.url)
    monkeypatch.setenv("REPRISE_TOKEN", token)
    # There is no worker: who waits does its work.
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: deliver_webhooks())
    monkeypatch.setattr(command_module, "time", clock)

    def call(*arguments: str) -> str:
        done = CliRunner().invoke(app, ["webhook", *arguments])
        assert done.exit_code == 0, done.output
        return done.stdout

    return call


@pytest.mark.django_db(transaction=True)
def test_on_the_command_line(
    at: Project,
    owner: Any,
    token: str,
    live_server: Any,
    receiver: Receiver,
    reprise: Callable[..., str],
) -> None:
    secret = reprise("create", receiver.url, "-e", "session.submitted", "--description", "d")
    with Client(live_server.url, token) as client:
        (hook,) = client.webhooks(project="acme/work")
        assert (hook.event_types, hook.description) == (["session.submitted"], "d")
        begin = hook.id[:20]
        assert f"webhook/{hook.id} answers 204 in" in reprise("ping", begin)
        assert receiver.got[0].verified(secret.strip())["type"] == "webhook.ping"
        receiver.answer = lambda _: Says(410)
        factories.submit(at, owner=owner)
        deliver_webhooks()
        (failed,) = client.webhook_deliveries(hook.id, state="failed")
        assert client.webhook(hook.id).paused_reason == "the receiver answered 410 Gone"
        receiver.answer = lambda _: Says()
        assert "1 sent again" in reprise("redeliver", begin, str(failed.id))
        reprise("resume", begin)
        deliver_webhooks()
        assert "0 sent again" in reprise("redeliver", begin, "--since", "2026-01-01")
        listed = reprise("deliveries", begin, "--state", "delivered", "-o", "name").split()
        assert len(listed) == 2
        assert client.webhook_delivery(hook.id, int(listed[0])).message_id == failed.message_id
        described = CliRunner().invoke(app, ["describe", "webhook", begin]).stdout
        assert "session.submitted" in described
        assert CliRunner().invoke(app, ["get", "webhooks", "-o", "name"]).stdout.split() == [
            hook.id
        ]
        assert reprise("secret", begin, "--overlap", "0").startswith("whsec_")
        reprise("pause", begin, "--reason", "because")
        wrong = CliRunner().invoke(app, ["webhook", "redeliver", begin])
        assert (wrong.exit_code, "give a DELIVERY" in wrong.stderr) == (2, True)
        reprise("delete", begin, "--yes")
        with pytest.raises(ApiError, match="no webhook"):
            client.webhook(hook.id)
