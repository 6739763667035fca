"""The box of pages with which a retry takes along what failed because of the session."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from sessions_app.core.states import Phase
from sessions_app.models import Project, Session
from sessions_app.services.chains import downstream
from tests import factories
from tests.integration.test_dependencies import depends, fail
from tests.invariants import check_all
from tests.pages import client, owner, project, signed_in

__all__ = ["client", "owner", "project"]
BOX = 'name="downstream"'


def chains(at: Project, by: User, below: User) -> tuple[Session, Session]:
    """A session that failed, and another one that could not begin because of it."""
    first = factories.submit(at, owner=by)
    later = depends(at, first, owner=below)
    factories.start(first)
    fail(first)
    return first, later


@pytest.fixture
def pair(project: Project, owner: User) -> tuple[Session, Session]:
    return chains(project, owner, owner)


def test_the_box_is_there_if_anything_failed_because_of_it(
    client: Client, pair: tuple[Session, Session]
) -> None:
    first, later = pair
    page = client.get(f"/sessions/{first.pk}/").content.decode()
    assert BOX in page
    assert "also 1 session downstream" in page
    form = client.get(f"/sessions/{first.pk}/retry/").content.decode()
    assert BOX in form
    assert "1 session, without these changes" in form
    for address in ("", "retry/"):
        assert BOX not in client.get(f"/sessions/{later.pk}/{address}").content.decode()


@pytest.mark.parametrize("ticked", [True, False])
def test_the_button_takes_along_what_is_downstream(
    client: Client, pair: tuple[Session, Session], ticked: bool
) -> None:
    first, later = pair
    more = {"downstream": "1"} if ticked else {}
    response = client.post(f"/sessions/{first.pk}/", {"do": "retry", **more}, follow=True)
    assert factories.tip(first).retry_count == 1
    below = factories.tip(later)
    assert (below.phase == Phase.BLOCKED, below.retry_count) == (ticked, int(ticked))
    said = "This is the new attempt. 1 downstream wait for it again."
    assert (said in response.content.decode()) == ticked
    assert check_all() == []


def test_the_form_takes_it_along_without_the_changes(
    client: Client, pair: tuple[Session, Session]
) -> None:
    first, later = pair
    shown = {"image": "train:2", "command": "python x.py", "priority": "0"}
    rest = {"batch_timeout": "", "resources": "", "environ": "", "reason": "", "downstream": "1"}
    assert client.post(f"/sessions/{first.pk}/retry/", {**shown, **rest}).status_code == 302
    assert factories.tip(first).spec.image == "train:2"
    below = factories.tip(later)
    assert (below.phase, below.retry_count, below.spec_id) == (Phase.BLOCKED, 1, later.spec_id)
    assert check_all() == []


def test_nobody_takes_along_what_they_may_not_retry(
    client: Client, project: Project, owner: User
) -> None:
    first, later = chains(project, owner, factories.user("else", project=project))
    response = client.post(
        f"/sessions/{first.pk}/", {"do": "retry", "downstream": "1"}, follow=True
    )
    assert "This is the new attempt" not in response.content.decode()
    assert factories.tip(first).pk == first.pk
    assert factories.tip(later).pk == later.pk


def test_too_many_downstream_are_refused(
    client: Client, pair: tuple[Session, Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = pair
    monkeypatch.setattr(downstream, "MOST", 0)
    assert "also more than 0 sessions downstream" in (
        client.get(f"/sessions/{first.pk}/").content.decode()
    )
    client.post(f"/sessions/{first.pk}/", {"do": "retry", "downstream": "1"})
    assert factories.tip(first).pk == first.pk


@pytest.mark.parametrize("ticked", [True, False])
def test_the_admin_takes_it_along(pair: tuple[Session, Session], ticked: bool) -> None:
    first, later = pair
    admin = signed_in(factories.user("root", superuser=True))
    page = admin.get(f"/admin/sessions_app/session/{first.pk}/change/").content.decode()
    assert "also 1 session downstream" in page
    more = {"downstream": "1"} if ticked else {}
    admin.post(f"/admin/sessions_app/session/{first.pk}/act/", {"do": "retry", **more})
    assert (factories.tip(first).retry_count, factories.tip(later).retry_count) == (1, int(ticked))
    assert check_all() == []
