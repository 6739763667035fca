"""Keys and what is encrypted under them."""

import pytest

from sessions_app.core.encryption import ID_LENGTH, EncryptionKeys
from sessions_app.core.errors import SecretUnreadable

OLD, NEW = "o" * 40, "n" * 40


def test_each_key_reads_what_was_written_under_it() -> None:
    before, after = EncryptionKeys([OLD]), EncryptionKeys([NEW, OLD])
    stored = before.encrypt("wörd")
    assert after.decrypt(stored) == "wörd"
    assert stored.startswith(f"{before.newest}.")
    assert len(before.newest) == ID_LENGTH
    assert after.encrypt("wörd").startswith(f"{after.newest}.")
    assert after.ids == (after.newest, before.newest)


def test_nothing_tells_what_is_in_it() -> None:
    keys = EncryptionKeys([NEW])
    assert keys.encrypt("a") != keys.encrypt("a")
    assert len(keys.encrypt("a")) == len(keys.encrypt("another"))
    assert NEW not in keys.newest


def test_a_key_that_is_not_there_is_named() -> None:
    stored = EncryptionKeys([OLD]).encrypt("x")
    with pytest.raises(SecretUnreadable, match=rf"need the key {stored[:8]}, which is not among"):
        EncryptionKeys([NEW]).decrypt(stored)
    with pytest.raises(SecretUnreadable, match="set REPRISE_ENCRYPTION_KEYS"):
        EncryptionKeys([NEW], made_up=True).decrypt(stored)


def test_changed_ciphertext_is_refused() -> None:
    keys = EncryptionKeys([NEW])
    stored = keys.encrypt("x")
    turned = stored[:-10] + ("A" if stored[-10] != "A" else "B") + stored[-9:]
    for broken in (turned, stored[:20], f"{keys.newest}."):
        with pytest.raises(SecretUnreadable, match="are damaged"):
            keys.decrypt(broken)


@pytest.mark.parametrize("keys", [["short"], [NEW, "short"], [NEW, NEW]])
def test_keys_that_are_no_good_are_refused(keys: list[str]) -> None:
    with pytest.raises(ValueError, match="key"):
        EncryptionKeys(keys)
