"""Secrets in the database: encrypted, read under older keys, and encrypted anew."""

import io
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction

from reprise.standalone.credentials import encryption_keys
from reprise.standalone.errors import StandaloneError
from sessions_app.core.encryption import EncryptionKeys
from sessions_app.locks import database_now
from sessions_app.models import Project, WebhookDelivery, WebhookEndpoint
from sessions_app.services.secrets import encrypt as encrypt_secrets
from sessions_app.services.secrets.stored import secret_read
from sessions_app.tasks import deliver_webhooks
from sessions_app.webhooks import endpoints
from sessions_app.webhooks.url_guard import Guard
from tests import factories
from tests.audit import audited_acts
from tests.dumped import everything_stored
from tests.receiver import Receiver
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.django_db(transaction=True)

FIRST, SECOND = "1" * 40, "2" * 40
PLAIN = "whsec_" + "A" * 43 + "="


@pytest.fixture(autouse=True)
def _first_key(settings: Any) -> None:
    settings.ENCRYPTION_KEYS = EncryptionKeys([FIRST])
    settings.WEBHOOK_GUARD = Guard.of(["127.0.0.0/8"], [], http=True)


def webhook(at: Project, url: str = "http://127.0.0.1:9/hook") -> WebhookEndpoint:
    return endpoints.webhook_create(
        project=at, url=url, event_types=["session.submitted"], description="", by="root"
    )


def encrypt() -> list[str]:
    output = io.StringIO()
    call_command("encrypt_secrets", stdout=output)
    return output.getvalue().splitlines()


def test_a_secret_is_nowhere_in_the_database(at: Project, receiver: Receiver) -> None:
    hook = webhook(at, receiver.url)
    endpoints.webhook_new_secret(hook, overlap=timedelta(hours=1), by="root")
    factories.submit(at)
    deliver_webhooks()
    assert receiver.got[0].verified(hook.new_secret)
    whole = everything_stored()
    assert hook.new_secret not in whole
    assert hook.new_secret.removeprefix("whsec_") not in whole
    assert "whsec_" not in whole


def test_a_secret_of_the_version_before_signs_and_is_encrypted(
    at: Project, receiver: Receiver
) -> None:
    hook = webhook(at, receiver.url)
    WebhookEndpoint.objects.update(secret=PLAIN)
    factories.submit(at)
    deliver_webhooks()
    assert receiver.got[0].verified(PLAIN)
    newest = EncryptionKeys([FIRST]).newest
    assert encrypt() == [
        f"encrypted under the key {newest}: the secrets of 1 webhooks and 0 sessions"
    ]
    hook.refresh_from_db()
    assert hook.secret.startswith(f"{newest}.")
    assert secret_read(hook.secret) == PLAIN
    factories.submit(at)
    deliver_webhooks()
    assert receiver.got[1].verified(PLAIN)
    entry = audited_acts().filter(object_type="webhook").last()
    assert entry is not None
    assert (entry.action, entry.actor) == ("webhook.encrypt", "manage.py encrypt_secrets")
    assert entry.data == {"before": {}, "after": {"secret": "changed"}}


def test_a_new_key_takes_over_and_the_old_one_may_go(at: Project, settings: Any) -> None:
    hook = webhook(at)
    settings.ENCRYPTION_KEYS = keys = EncryptionKeys([SECOND, FIRST])
    assert encrypt_secrets.keys_in_use() == {keys.ids[1]}
    assert encrypt()[1] == (
        f"the key {keys.ids[1]} can be removed once every process was started with {keys.newest} "
        f"before it"
    )
    settings.ENCRYPTION_KEYS = EncryptionKeys([SECOND])
    hook_after = WebhookEndpoint.objects.get()
    assert secret_read(hook_after.secret) == hook.new_secret
    assert encrypt()[0].endswith("the secrets of 0 webhooks and 0 sessions")


def test_a_key_that_was_taken_away_too_early_is_missed_at_once(
    at: Project, settings: Any, receiver: Receiver
) -> None:
    webhook(at, receiver.url)
    old = settings.ENCRYPTION_KEYS.newest
    settings.ENCRYPTION_KEYS = EncryptionKeys([SECOND])
    with pytest.raises(CommandError, match=f"need the key {old}, which is not in"):
        encrypt()
    with pytest.raises(CommandError, match=f"need the key {old}, which is not in"):
        call_command("migrate", verbosity=0)
    other = webhook(factories.project("other", domain="acme"), receiver.url)
    for place in (at, other.project):
        factories.submit(place)
    deliver_webhooks()
    # One that cannot be signed holds up no other.
    (got,) = receiver.got
    assert got.verified(other.new_secret)
    waiting = WebhookDelivery.objects.get(state="waiting")
    assert waiting.error.startswith(f"not sent: its secrets need the key {old}, which is not among")
    assert waiting.due_at is not None
    settings.ENCRYPTION_KEYS = EncryptionKeys([SECOND, FIRST])
    WebhookDelivery.objects.filter(due_at__isnull=False).update(due_at=database_now())
    deliver_webhooks()
    assert len(receiver.got) == 2


def test_concurrent_writers_are_waited_for(at: Project, settings: Any) -> None:
    """A transaction that began under the old key is seen, too."""
    webhook(at)
    settings.ENCRYPTION_KEYS = keys = EncryptionKeys([SECOND, FIRST])
    written, go_on = threading.Event(), threading.Event()

    def write() -> None:
        try:
            with transaction.atomic():
                WebhookEndpoint.objects.create(
                    **{
                        field.attname: getattr(WebhookEndpoint.objects.get(), field.attname)
                        for field in WebhookEndpoint._meta.concrete_fields
                        if field.attname not in {"id", "secret"}
                    },
                    secret=EncryptionKeys([FIRST]).encrypt(PLAIN),
                )
                written.set()
                assert go_on.wait(PATIENCE_SECONDS)
        finally:
            connection.close()

    other = threading.Thread(target=write)
    other.start()
    try:
        assert written.wait(PATIENCE_SECONDS)
        threading.Timer(0.5, go_on.set).start()
        output = encrypt()
    finally:
        go_on.set()
        other.join()
    assert output[0].endswith("the secrets of 2 webhooks and 0 sessions")
    assert encrypt_secrets.keys_in_use() == {keys.newest}


def test_many_are_encrypted_a_slice_at_a_time(
    at: Project, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encrypt_secrets, "SLICE", 2)
    for _ in range(5):
        webhook(at)
    settings.ENCRYPTION_KEYS = keys = EncryptionKeys([SECOND, FIRST])
    assert encrypt()[0].endswith("the secrets of 5 webhooks and 0 sessions")
    assert encrypt_secrets.keys_in_use() == {keys.newest}


def test_standalone_makes_a_key_once_and_keeps_it_to_itself(tmp_path: Path) -> None:
    made = encryption_keys(tmp_path)
    path = tmp_path / "encryption_keys"
    assert path.stat().st_mode & 0o777 == 0o600
    assert encryption_keys(tmp_path).decrypt(made.encrypt("x")) == "x"
    # A new one goes before it, on a line of its own.
    path.write_text(f"{SECOND}\n{path.read_text()}")
    both = encryption_keys(tmp_path)
    assert both.ids == (EncryptionKeys([SECOND]).newest, made.newest)
    path.write_text("short\n")
    with pytest.raises(StandaloneError, match="encryption_keys: each key must have 32"):
        encryption_keys(tmp_path)
