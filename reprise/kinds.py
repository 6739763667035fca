"""The kinds of values that the server's environment variables have, beside the common ones."""

import re

import dj_database_url

from base.variables.kinds import (
    SECRET,
    Kind,
    WrongValueError,
    above_zero,
    choice,
    listed,
    matching,
    seconds,
    whole,
)
from reprise.worker import broker
from sessions_app.core.encryption import EncryptionKeys

NO_DATABASE = "none"
"""The value of `DATABASE_URL` for checks of the code that need no database."""
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.ASCII)
_HOST = re.compile(r"\*|\.?[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+", re.ASCII)
_ORIGIN = re.compile(r"https?://[^/\s,]+", re.ASCII)
_PROJECT = re.compile(r"[^/\s]+/[^/\s]+")
_WORD = re.compile(r"\S+")


def _database_url(text: str) -> str:
    """Return the address of a PostgreSQL. Errors show only its scheme, no password."""
    if text == NO_DATABASE:
        return text
    try:
        engine = dj_database_url.parse(text).get("ENGINE")
    except ValueError:
        engine = None
    if engine != "django.db.backends.postgresql":
        scheme = _SCHEME.match(text)
        raise WrongValueError(
            "Reprise needs a PostgreSQL, with an address such as "
            "postgres://user:password@host:5432/name"
            + (f"; this one begins with {scheme[0]}" if scheme else "")
        )
    return text


def _broker_url(text: str) -> str:
    if refused := broker.refusal(text):
        raise WrongValueError(refused)
    return text


def _encryption_keys(text: str) -> EncryptionKeys:
    try:
        return EncryptionKeys(listed(SECRET).read(text))
    except ValueError as error:
        raise WrongValueError(str(error)) from None


DATABASE_URL = Kind(
    _database_url, "the address of a PostgreSQL, `postgres://...`", secret=True, refuses_empty=True
)
BROKER_URL = Kind(
    _broker_url, "the address of a RabbitMQ, `amqp://...`", secret=True, refuses_empty=True
)
ENCRYPTION_KEYS = Kind(
    _encryption_keys, "separated by commas, each 32 random characters or more", secret=True
)
ISOLATION = choice("on", "partly", "off")
HOST = matching(_HOST.fullmatch, "a host without scheme and port, such as reprise.example.org")
NAME = matching(_NAME.fullmatch, "a host without scheme and port, such as hooks.example.org")
ORIGIN = matching(_ORIGIN.fullmatch, "an origin such as https://reprise.example.org")
PROJECT = matching(_PROJECT.fullmatch, "a project, written domain/name")
WORD = matching(_WORD.fullmatch, "a path such as hostNetwork, without blanks")
RATE = whole()
COUNT = whole(1)
SECONDS = seconds()
SECONDS_OF_A_DAY = seconds(most=86_400)
SOME_SECONDS = above_zero("seconds")
