"""The queues and quotas of a project on its pages."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from sessions_app.models import Project, ProjectUsage, Queue
from sessions_app.models.tenants import Role
from sessions_app.selectors import queue_shares
from tests import factories
from tests.integration.test_project_pages import statements, version
from tests.pages import lead, project, read, signed_in, viewer, words

__all__ = ["lead", "project", "viewer"]
pytestmark = pytest.mark.django_db
AT = "/projects/acme/work/queues/"
NIGHT = {"name": "night", "priority_factor": "0.5", "resource_limits": "cpu: 8\nsessions: 2"}


def change(client: Client, name: str, **sent: Any) -> Any:
    path = f"{AT}at/{name}/"
    return client.post(path, {"version": version(client, path), **sent}, follow=True)


class TestQueues:
    def test_a_lead_makes_changes_and_deletes_one(self, project: Project, lead: Client) -> None:
        factories.named_policy("steady", project=project)
        made = lead.post(f"{AT}new/", {**NIGHT, "retry_policies": "steady"}, follow=True)
        assert "The queue night is saved." in words(made)
        night = Queue.objects.get(name="night")
        assert night.resource_limits == {"cpu": "8", "sessions": "2"}
        assert (night.priority_factor, night.retry_policies) == (0.5, ["steady"])
        done = change(lead, "night", priority_factor="2", cordoned="1", cordon_reason="repairs")
        assert "cordoned repairs" in words(done)
        night.refresh_from_db()
        assert (night.priority_factor, night.cordoned, night.resource_limits) == (2, True, {})
        change(lead, "night", priority_factor="2", cordon_reason="repairs", is_default="1")
        night.refresh_from_db()
        assert (night.cordoned, night.cordon_reason, night.is_default) == (False, "", True)
        assert "Not done: it is the project" in words(
            lead.post(f"{AT}at/night/delete/", follow=True)
        )
        gone = lead.post(f"{AT}at/default/delete/", follow=True)
        assert "The queue default is deleted." in words(gone)

    def test_a_lead_sets_its_time_limits(self, project: Project, lead: Client) -> None:
        sent = {**NIGHT, "time_limits": "queue_timeout max: 3600"}
        lead.post(f"{AT}new/", sent, follow=True)
        assert "Time limits queue_timeout max: 3600" in read(lead, f"{AT}at/night/")
        assert Queue.objects.get(name="night").time_limits == {"queue_timeout": {"max": 3600}}

    def test_a_lead_sets_its_breaker_and_its_retry_budget(
        self, project: Project, lead: Client, viewer: Client
    ) -> None:
        rules = {"breaker": '{"chains": 5}', "retry_budget": '{"burst": 9}'}
        lead.post(f"{AT}new/", {**NIGHT, **rules}, follow=True)
        night = Queue.objects.get(name="night")
        assert night.breaker == {"chains": 5, "window": 600, "probe_after": 60}
        assert (night.retry_budget or {})["burst"] == 9
        page = read(viewer, f"{AT}at/night/")
        assert "Breaker opens when 5 chains fail alike within 600 s" in page
        assert "Retry budget 9 retries and 0.2 for each first attempt, within 3600 s" in page
        assert "&quot;chains&quot;: 5" in lead.get(f"{AT}at/night/").content.decode()
        change(lead, "night", priority_factor="1")
        night.refresh_from_db()
        assert (night.breaker, night.retry_budget) == (None, None)

    @pytest.mark.parametrize(
        ("sent", "told"),
        [
            ({"name": "Night"}, "lower-case letters"),
            ({"name": "default"}, "already"),
            ({"priority_factor": "0"}, "greater than or equal to"),
            ({"priority_factor": "nan"}, "number"),
            ({"resource_limits": "cpu"}, "write it as resource: amount"),
            ({"resource_limits": "cpu: much"}, "cpu:"),
            ({"time_limits": "queue_timeout max: soon"}, "write it as queue_timeout max: seconds"),
            ({"breaker": '{"chains": 1}'}, "chains: Input should be greater than or equal to 2"),
            ({"breaker": "[" * 9_000}, "longer than 500 characters"),
            ({"retry_budget": '{"over": "wait"}'}, "over: must be one of: postpone, fail"),
            ({"retry_policies": "gone"}, "unknown retry policies: gone"),
            ({"cordoned": "1"}, "Say why"),
        ],
    )
    def test_a_mistake_is_told_at_its_field(
        self, lead: Client, sent: dict[str, str], told: str
    ) -> None:
        refused = lead.post(f"{AT}new/", {**NIGHT, **sent})
        assert refused.status_code == 400
        page = refused.content.decode()
        assert any(told in each.split("<")[0] for each in page.split('class="error">')[1:]), page
        assert not Queue.objects.filter(name__iexact="night").exists()

    def test_an_edit_of_somebody_else_is_not_overwritten(
        self, project: Project, lead: Client
    ) -> None:
        path = f"{AT}at/default/"
        before = version(lead, path)
        Queue.objects.filter(project=project).update(priority_factor=3)
        sent = {"version": before, "priority_factor": "1", "is_default": "1"}
        refused = lead.post(path, sent)
        assert refused.status_code == 400
        assert "Changed meanwhile" in words(refused)
        assert Queue.objects.get(project=project).priority_factor == 3

    def test_a_viewer_reads_and_a_stranger_finds_nothing(
        self, project: Project, viewer: Client
    ) -> None:
        assert "default" in read(viewer, AT)
        read(viewer, f"{AT}at/default/")
        read(viewer, f"{AT}shares/")
        assert viewer.get(f"{AT}new/").status_code == 403
        assert viewer.post(f"{AT}at/default/", {"priority_factor": "9"}).status_code == 403
        assert viewer.post(f"{AT}at/default/delete/").status_code == 403
        assert viewer.post(AT, {"quota_sessions": "9"}).status_code == 403
        stranger = signed_in(factories.user("sam"))
        for path in ("", "shares/", "new/", "at/default/", "at/default/delete/"):
            assert stranger.get(AT + path).status_code == 404
        assert viewer.get(f"{AT}at/none/").status_code == 404


class TestShares:
    def test_each_hour_is_shared_by_run_time(self, project: Project, viewer: Client) -> None:
        night = factories.queue(project, "night")
        for name, pods in (("default", 1), ("night", 3)):
            session = factories.submit(project, queue=name, cluster_size=pods)
            started = factories.start(session)
            started.started_at = timezone.now() - timedelta(seconds=100)
            started.save(update_fields=["started_at"])
        found = queue_shares.queue_shares(project.pk, timezone.now())
        both = {queue: round(values[-1] / 100) for queue, values in found.seconds.items()}
        assert both == {factories.default_queue(project).pk: 1, night.pk: 3}
        assert not found.capped
        text = read(viewer, f"{AT}shares/")
        assert "of all attempts" in text
        assert "75 25" in text or "75.0 25.0" in text

    def test_an_hour_is_a_sample(
        self, project: Project, viewer: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(queue_shares, "SAMPLED", 2)
        for _ in range(3):
            factories.start(factories.submit(project))
        assert queue_shares.queue_shares(project.pk, timezone.now()).capped
        assert "of the newest" in read(viewer, f"{AT}shares/")


class TestQuotas:
    def test_an_admin_of_the_domain_sets_them_and_a_lead_reads_them(
        self, project: Project, lead: Client
    ) -> None:
        above = signed_in(factories.user("dom", domain=project.domain, role=Role.DOMAIN_ADMIN))
        sent = {"quota_sessions": "5", "quota_resources": "cpu: 16\nmemory: 64Gi"}
        assert "Saved: the quotas" in words(above.post(AT, sent, follow=True))
        assert ProjectUsage.objects.filter(project=project).count() == 3
        assert "sessions acme/work 0 5" in read(lead, AT)
        assert 'name="quota_sessions"' not in lead.get(AT).content.decode()
        assert lead.post(AT, {"quota_sessions": "99"}).status_code == 403
        refused = above.post(AT, {"quota_resources": "cpu"})
        assert refused.status_code == 400
        assert "write it like memory: 64Gi" in words(refused)
        above.post(AT, {})
        assert not ProjectUsage.objects.filter(project=project).exists()


@pytest.mark.parametrize(("path", "most"), [("", 9), ("at/default/", 8), ("shares/", 7)])
def test_pages_take_a_fixed_number_of_statements(
    project: Project, lead: Client, path: str, most: int
) -> None:
    factories.submit(project)
    few = statements(lead, AT + path)
    for number in range(6):
        factories.queue(project, f"q{number}")
        factories.submit(project, queue=f"q{number}")
    assert statements(lead, AT + path) == few <= most
