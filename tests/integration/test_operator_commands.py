"""`manage.py`: what an operator sets up from the command line, and its marks in the audit log."""

import io
import stat
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from scheduler.models import Executor
from sessions_app.models import ApiToken, Project
from sessions_app.services.access.tokens import token_find
from tests.audit import audited_acts


def _say(*command: str) -> str:
    out = io.StringIO()
    call_command(*command, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def _audited(action: str) -> list[tuple[str, str]]:
    return list(audited_acts().filter(action=action).values_list("actor", "object_id"))


def test_a_project_is_made_once() -> None:
    assert _say("create_project", "physics/simulation") == "project physics/simulation created\n"
    assert "exists" in _say("create_project", "physics/simulation")
    project = Project.objects.get(name="simulation", domain__name="physics")
    assert list(project.queues.values_list("name", "is_default")) == [("default", True)]
    assert _audited("project.create") == [("manage.py", "physics/simulation")]


@pytest.mark.parametrize("address", ["physics", "Physics/x", "a/b/c", "/x", f"a/{'x' * 64}"])
def test_an_impossible_name_is_refused(address: str) -> None:
    before = Project.objects.count()
    with pytest.raises(CommandError, match="is not a valid name"):
        _say("create_project", address)
    assert Project.objects.count() == before


def test_an_executor_keeps_its_token_until_it_is_invalid(tmp_path: Path) -> None:
    _say("create_project", "physics/simulation")
    path = tmp_path / "token"
    command = ("create_executor", "rack-1", "--project", "physics/simulation")
    assert "executor rack-1 created" in _say(*command, "--token-file", str(path))
    secret = path.read_text()
    token = token_find(secret)
    assert token is not None
    assert token.executor_name == "rack-1"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    executor = Executor.objects.get(name="rack-1")
    assert [each.address for each in executor.projects.all()] == ["physics/simulation"]
    assert _audited("executor.create") == [("manage.py", "rack-1")]

    assert "its token is in" in _say(*command, "--token-file", str(path))
    assert path.read_text() == secret
    _say("revoke_token", token.prefix)
    assert token_find(secret) is None
    assert "a new token is in" in _say(*command, "--token-file", str(path))
    assert token_find(path.read_text()) is not None


def test_an_executor_of_every_project_is_not_narrowed(tmp_path: Path) -> None:
    _say("create_project", "physics/simulation")
    file = ("--token-file", str(tmp_path / "token"))
    _say("create_executor", "rack-1", *file)
    _say("create_executor", "rack-1", "--project", "physics/simulation", *file)
    assert not Executor.objects.get(name="rack-1").projects.exists()


def test_an_executor_without_a_file_gets_its_token_printed() -> None:
    assert _say("create_executor", "rack-1") == "executor rack-1 created\n"
    assert not ApiToken.objects.exists()
    token = token_find(_say("create_token", "--executor", "rack-1", "--name", "rack-1").strip())
    assert token is not None
    assert token.executor_name == "rack-1"


def test_another_executors_token_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "token"
    _say("create_executor", "rack-1", "--token-file", str(path))
    _say("create_executor", "rack-2", "--token-file", str(path))
    token = token_find(path.read_text())
    assert token is not None
    assert token.executor_name == "rack-2"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("create_executor", "rack-1", "--project", "no/where"), "no project no/where"),
        (("create_executor", "Rack 1"), "is not a valid name"),
    ],
)
def test_a_wrong_executor_is_one_line(
    tmp_path: Path, command: tuple[str, ...], message: str
) -> None:
    path = tmp_path / "token"
    with pytest.raises(CommandError, match=message):
        _say(*command, "--token-file", str(path))
    assert not path.exists()
    assert not Executor.objects.filter(name__startswith="rack").exists()


def test_an_unwritable_token_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="No such file"):
        _say("create_executor", "rack-1", "--token-file", str(tmp_path / "nowhere" / "token"))


def test_a_persons_token_is_all_that_is_printed() -> None:
    user = User.objects.create_superuser("ada")
    secret = _say("create_token", "--user", "ada", "--name", "laptop", "--days", "30").strip()
    token = token_find(secret)
    assert token is not None
    assert (token.user, token.name, token.read_only) == (user, "laptop", False)
    assert token.expires_at is not None
    assert "revoked" in _say("revoke_token", token.prefix)
    assert token_find(secret) is None
    assert _audited("token.revoke") == [("manage.py", token.prefix)]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("create_token", "--user", "nobody", "--name", "x"), "no active user nobody"),
        (("create_token", "--executor", "nowhere", "--name", "x"), "no executor nowhere"),
        (("revoke_token", "rpr_unknown0"), "no token begins with rpr_unknown0"),
    ],
)
def test_a_wrong_token_command_is_one_line(command: tuple[str, ...], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        _say(*command)
    assert not ApiToken.objects.exists()
