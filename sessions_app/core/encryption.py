"""Secrets at rest: encrypted under the newest of the server's keys, read under any of them.

The stored text is the id of its key, a full stop, and a Fernet token. Without the key nothing can
be learned from it, not even whether two secrets are equal.
"""

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Sequence

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from sessions_app.core.errors import SecretUnreadable

SHORTEST_KEY = 32
ID_LENGTH = 8
_SEPARATOR = "."


class EncryptionKeys:
    """The server's keys, newest first, each of `SHORTEST_KEY` random characters or more.

    Raises `ValueError` for a key that is too short or repeated. Without keys nothing can be
    encrypted or read. `made_up` says that this process generated the keys itself.
    """

    def __init__(self, keys: Sequence[str], *, made_up: bool = False):
        if any(len(key) < SHORTEST_KEY for key in keys):
            raise ValueError(f"each key must have {SHORTEST_KEY} random characters or more")
        self._ciphers = {_id(key): _cipher(key) for key in keys}
        if len(self._ciphers) < len(keys):
            raise ValueError("a key is repeated")
        self.ids = tuple(self._ciphers)
        self._made_up = made_up

    @property
    def newest(self) -> str:
        """Return the id of the key that encrypts new secrets."""
        return self.ids[0]

    def encrypt(self, text: str) -> str:
        """Return the encrypted text, as it is stored."""
        token = self._ciphers[self.newest].encrypt(text.encode()).decode("ascii")
        return f"{self.newest}{_SEPARATOR}{token}"

    def decrypt(self, stored: str) -> str:
        """Return the text that was encrypted. Raises `SecretUnreadable`."""
        key_id, _, token = stored.partition(_SEPARATOR)
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise SecretUnreadable(f"its secrets need the key {key_id}, {self._why_not()}")
        try:
            return cipher.decrypt(token).decode()
        except InvalidToken as error:
            raise SecretUnreadable(
                f"its stored secrets are damaged: key {key_id} cannot decrypt them"
            ) from error

    def _why_not(self) -> str:
        if self._made_up:
            return "and this process has only made one for itself: set REPRISE_ENCRYPTION_KEYS"
        return "which is not among the REPRISE_ENCRYPTION_KEYS of this server"


def _id(key: str) -> str:
    return hashlib.sha256(b"reprise key id: " + key.encode()).hexdigest()[:ID_LENGTH]


def _cipher(key: str) -> Fernet:
    derived = HKDF(SHA256(), length=32, salt=None, info=b"reprise secrets at rest")
    return Fernet(urlsafe_b64encode(derived.derive(key.encode())))
