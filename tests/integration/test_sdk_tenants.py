"""Tenants by the SDK and by the command, against the server itself."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from reprise_client import ApiError, Client
from reprise_client.cli.main import app
from typer.testing import CliRunner, Result

from sessions_app.models import ApiToken, Domain, Membership, Project
from tests import factories

pytestmark = pytest.mark.django_db(transaction=True)

Command = Callable[..., Result]


@pytest.fixture
def client(live_server: Any) -> Iterator[Client]:
    token = factories.token(factories.user("root", superuser=True))
    with Client(live_server.url, token) as made:
        yield made


@pytest.fixture
def reprise(
    live_server: Any, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Command:
    """The command as a cluster admin; it has to end well unless `code` says how else."""
    del client
    token = factories.token(factories.user("ann", superuser=True))
    for name, value in (("URL", live_server.url), ("TOKEN", token)):
        monkeypatch.setenv(f"REPRISE_{name}", value)
    monkeypatch.delenv("REPRISE_PROJECT", raising=False)
    monkeypatch.setenv("REPRISE_CONFIG", str(tmp_path / "none.yaml"))

    def run(line: str, code: int = 0, stdin: str | None = None) -> Result:
        result = CliRunner().invoke(app, line.split(), input=stdin, prog_name="reprise")
        assert result.exit_code == code, result.output
        return result

    return run


def test_a_tenant_by_the_sdk(client: Client, live_server: Any) -> None:
    factories.user("mia")
    assert client.domain_create("acme").name == "acme"
    assert client.project_create("acme", "ml").address == "acme/ml"
    made = client.membership_create("mia", "member", project="acme/ml")
    assert client.membership_change(made.id, "viewer").role == "viewer"
    assert [each.user for each in client.memberships(project="acme/ml")] == ["mia"]
    assert [each.address for each in client.projects(search="m")] == ["acme/ml"]
    end = datetime.now(UTC) + timedelta(days=1)
    token = client.token_create("ci", user="mia", project="acme/ml", read_only=True, expires_at=end)
    assert client.token(token.prefix).expires_at == token.expires_at == end
    with Client(live_server.url, token.token) as own:
        assert own.whoami().username == "mia"
        assert [each.token for each in own.tokens()] == [""]
        with pytest.raises(ApiError, match="may only read"):
            own.token_create("more")
        assert client.token_revoke(token.prefix, made_with=True) == [token.prefix]
        with pytest.raises(ApiError) as caught:
            own.whoami()
        assert caught.value.status == 401
    with pytest.raises(ApiError, match="acme/ml") as caught:
        client.domain_delete("acme")
    assert caught.value.problem["held_by"] == ["project acme/ml"]
    client.membership_delete(made.id)
    client.project_delete("acme/ml")
    client.domain_delete("acme")
    assert list(client.domains()) == []


def test_a_stale_version_is_a_412_and_is_not_tried_again(client: Client) -> None:
    factories.project("work", domain="acme")
    read = client.queue("acme/work/default")
    assert read.etag.startswith('"')
    assert "etag" not in read.model_dump()
    new = client.queue_change(read.address, if_match=read.etag, priority_factor=2)
    assert new.etag not in {"", read.etag}
    with pytest.raises(ApiError, match="changed it since") as caught:
        client.queue_change(read.address, if_match=read.etag, priority_factor=3)
    assert caught.value.status == 412
    assert client.queue(read.address).priority_factor == 2
    defaults = client.retry_defaults()
    client.retry_defaults_put(policy={"max_retries": 1}, if_match=defaults.etag)
    for change in (
        lambda: client.retry_defaults_put(policy={}, if_match=defaults.etag),
        lambda: client.retry_defaults_delete(if_match=defaults.etag),
    ):
        with pytest.raises(ApiError, match="changed it since"):
            change()
    assert client.retry_defaults().policy == {"max_retries": 1}


def test_a_tenant_by_the_command(reprise: Command) -> None:
    factories.user("mia")
    assert reprise("create domain acme").stdout == "domain/acme created\n"
    assert reprise("create project acme/ml").stdout == "project/acme/ml created\n"
    made = reprise("create membership mia member --project acme/ml")
    assert made.stdout == "membership/acme/ml/mia created\n"
    reprise("create membership mia viewer --domain acme")
    assert reprise("get domains -o name").stdout == "acme\n"
    assert reprise("get projects --domain acme -o name").stdout == "acme/ml\n"
    members = reprise("get members --project acme/ml -o name").stdout
    assert members == "acme/ml/mia\nacme/mia\n"
    assert "member" in reprise("describe membership mia --project acme/ml").stdout
    for kind, name in (("domain", "acme"), ("project", "acme/ml")):
        assert "mia" in reprise(f"describe {kind} {name}").stdout
    held = reprise("delete domain acme --yes", code=5)
    assert "acme/ml" in held.stderr
    for line in ("membership acme/mia", "membership acme/ml/mia", "project acme/ml", "domain acme"):
        assert reprise(f"delete {line} --yes").stdout.endswith("deleted\n")
    assert (Domain.objects.count(), Project.objects.count(), Membership.objects.count()) == (0,) * 3
    assert "there is no project" in reprise("describe project acme/ml", code=3).stderr
    assert "DOMAIN/NAME" in reprise("create project ml", code=2).stderr
    refused = reprise("create membership mia viewer", code=2).stderr
    assert "give --project DOMAIN/NAME or --domain" in refused


def test_the_output_of_get_can_be_applied_again(reprise: Command, tmp_path: Path) -> None:
    factories.user("mia")
    documents = [
        {"kind": "Membership", "metadata": {"name": "mia", "domain": "acme", "project": "ml"},
         "spec": {"role": "viewer"}},
        {"kind": "Project", "metadata": {"name": "ml", "domain": "acme"}, "spec": {}},
        {"kind": "Domain", "metadata": {"name": "acme"}, "spec": {}},
    ]  # fmt: skip
    file = tmp_path / "tenants.yaml"

    def write(found: list[Any]) -> None:
        file.write_text(yaml.safe_dump_all([{"apiVersion": "reprise/v1"} | each for each in found]))

    write(documents)
    applied = reprise(f"apply -f {file}").stdout
    assert applied == (
        "domain/acme created\nproject/acme/ml created\nmembership/acme/ml/mia created\n"
    )
    printed = [
        reprise(f"get {address} -o yaml").stdout
        for address in ("domain/acme", "project/acme/ml", "member/acme/ml/mia")
    ]
    again = reprise("apply -f -", stdin="---\n".join(printed)).stdout
    assert again.count("unchanged") == 3
    documents[0]["spec"] = {"role": "maintainer"}
    write(documents)
    assert "membership/acme/ml/mia configured" in reprise(f"apply -f {file}").stdout
    assert Membership.objects.get().role == "maintainer"


def test_a_token_by_the_command(reprise: Command) -> None:
    factories.project("ml", domain="acme")
    made = reprise("create token ci --project acme/ml --read-only --days 7")
    secret = made.stdout.strip()
    assert secret.startswith("rpr_")
    token = ApiToken.objects.get(name="ci")
    assert (token.prefix, token.read_only) == (secret[:12], True)
    assert f"reprise delete token {token.prefix}" in made.stderr
    listed = reprise("get tokens -o wide").stdout
    assert token.prefix in listed
    assert "acme/ml" in listed
    assert secret not in listed + reprise(f"get token {token.prefix} -o yaml").stdout
    # What somebody pastes is not sent whole.
    assert "acme/ml" in reprise(f"describe token {secret}").stdout
    assert reprise(f"delete token {token.prefix} --yes").stdout.endswith("revoked\n")
    assert not ApiToken.objects.filter(name="ci").exists()
