"""The form that retries a session with changes, as a browser sends it; links to parked chains."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from interfaces.http.documents import yaml_value
from sessions_app.models import Project, RetryDefaults, Session
from sessions_app.models.tenants import Role
from tests import factories
from tests.integration.test_parked import a_parked
from tests.invariants import check_all
from tests.pages import lead, project, signed_in

__all__ = ["lead", "project"]
HTMX = {"HX-Request": "true"}


def failed(at: Project, **fields: Any) -> Session:
    asked = {
        "image": "train:1",
        "command": ["python", "a b.py"],
        "environ": {"OLD": "1", "KEPT": "2"},
        "resources": {"cpu": "1", "memory": "1Gi"},
        **fields,
    }
    session = factories.submit(at, retry_policy=factories.policy(max_retries=0), **asked)
    return factories.settle(factories.start(session))


def address(session: Session) -> str:
    return f"/sessions/{session.pk}/retry/"


def sent(**changed: str) -> dict[str, str]:
    """The form as the page shows it, with some fields changed."""
    shown = {"image": "train:1", "command": "python 'a b.py'", "priority": "0"}
    return {**shown, "batch_timeout": "", "resources": "", "environ": "", "reason": "", **changed}


def test_the_page_offers_the_form_with_what_ran(lead: Client, project: Project) -> None:
    session = failed(project, priority=3, batch_timeout=90)
    page = lead.get(f"/sessions/{session.pk}/").content.decode()
    assert address(session) in page
    with CaptureQueriesContext(connection) as asked:
        form = lead.get(address(session)).content.decode()
    assert len(asked) <= 20
    for value in ('value="train:1"', "python &#x27;a b.py&#x27;", 'value="3"', 'value="90.0"'):
        assert value in form
    running = factories.start(factories.submit(project))
    assert address(running) not in lead.get(f"/sessions/{running.pk}/").content.decode()


def test_what_was_changed_runs_and_all_else_stays(lead: Client, project: Project) -> None:
    session = failed(project)
    changes = sent(
        image="train:2",
        command='python "x y.py" --resume',
        environ="MODE=a=b\r\nEMPTY=\r\nOLD\r\n",
        resources="memory = 4Gi\r\n",
        priority="7",
        batch_timeout="60",
        reason="the new image is fixed",
    )
    response = lead.post(address(session), changes)
    child = factories.tip(session)
    assert (response.status_code, response["Location"]) == (302, f"/sessions/{child.pk}/")
    spec = child.spec
    assert (spec.image, spec.command) == ("train:2", ["python", "x y.py", "--resume"])
    assert spec.environ == {"KEPT": "2", "MODE": "a=b", "EMPTY": ""}
    assert spec.resources == {"cpu": "1", "memory": "4Gi"}
    assert (child.priority, spec.batch_timeout) == (7, 60)
    assert child.changes is not None
    assert child.changes["reason"] == "the new image is fixed"
    assert "image train:2" in lead.get(response["Location"]).content.decode()
    assert check_all() == []


def test_a_form_without_changes_is_a_plain_retry(lead: Client, project: Project) -> None:
    session = failed(project)
    response = lead.post(address(session), sent(), headers=HTMX)
    child = factories.tip(session)
    assert response.headers["HX-Redirect"] == f"/sessions/{child.pk}/"
    assert (child.spec_id, child.changes) == (session.spec_id, None)


def test_a_policy_and_a_pod_are_changed_as_yaml(lead: Client, project: Project) -> None:
    session = failed(project, pod_spec={"hostname": "one"})
    changes = sent(
        retry_policy="# only these\r\nmax_retries: 4\r\nretry_delay: 2.5\r\n",
        pod_spec="hostname: two\r\nnodeSelector: {zone: b}\r\n",
    )
    response = lead.post(address(session), changes)
    child = factories.tip(session)
    assert (response.status_code, response["Location"]) == (302, f"/sessions/{child.pk}/")
    assert child.spec.pod_spec == {"hostname": "two", "nodeSelector": {"zone": "b"}}
    assert (child.policy["max_retries"], child.policy["retry_delay"]) == (4, 2.5)
    assert child.changes is not None
    assert child.changes["retry_policy"] == {"max_retries": 4, "retry_delay": 2.5}
    assert check_all() == []


def test_a_pod_that_is_only_written_in_another_way_stays(lead: Client, project: Project) -> None:
    pod = {"hostname": "1e3", "containers": [{"name": "main", "tty": True}]}
    session = failed(project, pod_spec=pod)
    shown = lead.get(address(session)).context["fields"]
    (text,) = (field.value for field in shown if field.name == "pod_spec")
    assert yaml_value(text.encode()) == pod
    lead.post(address(session), sent(pod_spec=text.replace("\n", "\r\n"), retry_policy="# none"))
    child = factories.tip(session)
    assert child.pk != session.pk
    assert (child.spec_id, child.changes) == (session.spec_id, None)


def test_an_emptied_pod_is_none(lead: Client, project: Project) -> None:
    session = failed(project, pod_spec={"hostname": "one"})
    assert lead.post(address(session), sent(pod_spec="")).status_code == 302
    assert not factories.tip(session).spec.pod_spec


def test_who_may_not_see_values_is_shown_no_pod(project: Project) -> None:
    session = failed(project, pod_spec={"containers": [{"env": [{"name": "A", "value": "deep"}]}]})
    viewer = signed_in(factories.user(project=project, role=Role.VIEWER))
    assert "deep" not in viewer.get(address(session)).content.decode()
    member = signed_in(factories.user(project=project))
    assert "deep" in member.get(address(session)).content.decode()


def test_an_empty_limit_takes_it_away(lead: Client, project: Project) -> None:
    session = failed(project, batch_timeout=90)
    assert lead.post(address(session), sent(batch_timeout="")).status_code == 302
    assert factories.tip(session).spec.batch_timeout is None


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("image", "", "at least 1 character"),
        ("image", "x" * 600, "at most 512"),
        ("command", "python 'a", "A quote has no end."),
        ("command", "", "at least 1 item"),
        ("priority", "", "required"),
        ("priority", "9999999", "less than or equal to 1000000"),
        ("batch_timeout", "soon", "Enter a number."),
        ("batch_timeout", "-1", "must be between 0"),
        ("resources", "memory", "needs an amount"),
        ("resources", "memory=lots", "lots"),
        ("environ", "=1", "at least 1 character"),
        ("environ", "HIDDEN=1", "secret_environ"),
        ("secret_environ", "HIDDEN", "needs a name and a value"),
        ("secret_environ", "=1", "at least 1 character"),
        ("environ", "A=\x00", "Null characters"),
        ("retry_policy", "max_retries: [", "not valid YAML"),
        ("retry_policy", "- max_retries", "must be a YAML mapping"),
        ("retry_policy", "retry_delay: 1\nmax_retries: -1", "retry_policy.max_retries (line 2): "),
        ("retry_policy", "retries: 3", "retry_policy.retries (line 1): is not a known field"),
        ("retry_policy", "max_retries: 5", "(line 1): max_retries is 5, over the bound of 4"),
        ("pod_spec", "a: 1\na: 2", "is repeated"),
        ("pod_spec", "hostNetwork: true", "pod_spec: hostNetwork"),
        ("pod_spec", "containers: 5", "pod_spec: containers: must be"),
        ("pod_spec", "hostname: a\x00", "Null characters"),
    ],
)
def test_what_is_wrong_is_said_at_its_field(
    lead: Client, project: Project, name: str, value: str, words: str
) -> None:
    owner = User.objects.get(pk=lead.session["_auth_user_id"])
    session = failed(project, owner=owner, secret_environ={"HIDDEN": "x"})
    RetryDefaults.objects.create(bounds={"max_retries": 4})
    response = lead.post(address(session), sent(**{name: value}))
    assert response.status_code == 400
    wrong = {field.name: field.error for field in response.context["fields"] if field.error}
    assert list(wrong) == [name]
    assert words in wrong[name]
    assert not Session.objects.filter(parent=session).exists()


def test_all_mistakes_are_told_at_once(lead: Client, project: Project) -> None:
    session = failed(project)
    wrong = sent(command="a 'b", resources="cpu=x\ngpu=0.5", retry_policy="max_retries: -1")
    page = lead.post(address(session), wrong).content.decode()
    for why in (
        "A quote has no end.",
        "cpu: &#x27;x&#x27; is not a quantity",
        "gpu: must be a whole number",
        "retry_policy.max_retries (line 1): must be between 0",
    ):
        assert why in page
    assert Session.objects.count() == 1


def test_refusals_are_said_and_change_nothing(lead: Client, project: Project) -> None:
    session = failed(project)
    lead.post(address(session), sent(image="train:2"))
    again = lead.post(address(session), sent(image="train:3"))
    assert again.status_code == 400
    assert "only the newest attempt" in again.content.decode()
    assert Session.objects.filter(root=session).count() == 2


def test_only_who_may_retry_can(project: Project) -> None:
    session = failed(project)
    viewer = signed_in(factories.user(project=project, role=Role.VIEWER))
    assert address(session) not in viewer.get(f"/sessions/{session.pk}/").content.decode()
    assert viewer.post(address(session), sent(image="train:2")).status_code in {400, 404}
    stranger = signed_in(factories.user(project=factories.project("elsewhere")))
    assert stranger.get(address(session)).status_code == 404
    assert not Session.objects.filter(parent=session).exists()


def test_the_admin_leads_to_the_form(project: Project) -> None:
    session = failed(project)
    admin = signed_in(factories.user(superuser=True))
    page = admin.get(f"/admin/sessions_app/session/{session.pk}/change/").content.decode()
    assert f'href="{address(session)}"' in page


def test_pages_link_to_parked_chains(lead: Client, project: Project) -> None:
    parked = a_parked(project)
    other = failed(project, name="other-one")
    assert "?retry_state=parked" in lead.get("/").content.decode()
    listed = lead.get("/?retry_state=parked").content.decode()
    assert str(parked.pk) in listed
    assert str(other.pk) not in listed
    admin = signed_in(factories.user(superuser=True))
    assert '"/?retry_state=parked"' in admin.get("/operations/").content.decode()
