"""The records that the first start creates: an admin, tokens, a project, a queue, an executor."""

import json
import secrets
from dataclasses import dataclass
from pathlib import Path

from django.contrib.auth.models import User
from django.db import transaction

from reprise.standalone.errors import StandaloneError
from reprise.standalone.private_file import read_text, write_private
from scheduler.services.registration import executor_ensure
from sessions_app.audit.context import audited
from sessions_app.core.encryption import EncryptionKeys
from sessions_app.models import Project
from sessions_app.services.access.tokens import token_create, token_find
from sessions_app.services.resources.tenants import project_ensure

ADMIN = "admin"
EXECUTOR = "local"
DEFAULT = "default"
BY = "standalone"
"""The actor in the audit log for what the first start creates."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The content of `credentials.json`; the token is a cluster admin's."""

    url: str
    username: str
    password: str
    token: str
    project: str


def secret_key(data_dir: Path) -> str:
    """Return the key that signs browser sessions; create it once for a data directory."""
    path = data_dir / "secret_key"
    if not read_text(path):
        write_private(path, secrets.token_urlsafe(48))
    return read_text(path)


def encryption_keys(data_dir: Path) -> EncryptionKeys:
    """Return the keys of the secrets in the database, newest first; create them once.

    The file has one key a line. Raises `StandaloneError` for a file without valid keys.
    """
    path = data_dir / "encryption_keys"
    if not read_text(path):
        write_private(path, secrets.token_urlsafe(48) + "\n")
    try:
        return EncryptionKeys(read_text(path).split())
    except ValueError as error:
        raise StandaloneError(f"{path}: {error}") from error


def ensure_tenants() -> Project:
    """Return the project `default/default`; create it with its default queue if needed."""
    project, _ = project_ensure(domain=DEFAULT, name=DEFAULT, by=BY)
    return project


@transaction.atomic
def ensure_credentials(data_dir: Path, url: str, project: Project) -> Credentials:
    """Read `credentials.json`, or create an admin and a token; update the file."""
    path = data_dir / "credentials.json"
    known = _read(path)
    with audited(by=BY):
        user, created = User.objects.get_or_create(
            username=ADMIN, defaults={"is_superuser": True, "is_staff": True}
        )
        password = known.get("password", "")
        if created or not (password and user.check_password(password)):
            password = secrets.token_urlsafe(12)
            user.set_password(password)
            user.save()
        token = known.get("token", "")
        if not token or token_find(token) is None:
            token = token_create(name="standalone", user=user)
    found = Credentials(url, ADMIN, password, token, project.address)
    fields = {name: getattr(found, name) for name in Credentials.__slots__}
    write_private(path, json.dumps(fields, indent=2) + "\n")
    return found


def _read(path: Path) -> dict[str, str]:
    try:
        content = json.loads(read_text(path))
    except (ValueError, RecursionError):
        return {}
    found = content.items() if isinstance(content, dict) else ()
    # Our values are plain text, and the database would reject other characters.
    return {
        name: value
        for name, value in found
        if isinstance(value, str) and value.isascii() and value.isprintable()
    }


def executor_token(data_dir: Path) -> Path:
    """Return the path of the file that holds the local executor's token."""
    return data_dir / "executor.token"


def ensure_executor(data_dir: Path, project: Project) -> None:
    """Ensure that the local executor exists, for its project only, and has its token."""
    executor_ensure(name=EXECUTOR, projects=[project], by=BY)
    ensure_executor_token(executor_token(data_dir), EXECUTOR)


def ensure_executor_token(path: Path, executor_name: str) -> bool:
    """Ensure that the file holds a valid token. Return whether a new one was made."""
    known = token_find(read_text(path))
    if known is not None and known.executor_name == executor_name:
        return False
    write_private(
        path, token_create(name=f"executor {executor_name}", executor_name=executor_name, by=BY)
    )
    return True
