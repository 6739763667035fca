"""Reads untrusted JSON bodies: size, depth, numbers and text are checked first."""

import json
import math
import re
from collections import Counter
from typing import IO, Any

from django.conf import settings
from pydantic_core import from_json
from rest_framework.exceptions import APIException
from rest_framework.parsers import BaseParser

from retry.evidence.termination import clean_text
from sessions_app.core.errors import InvalidInput

MAX_DEPTH = 64
DRAIN_BYTES = 16 * 1024 * 1024
BODY = "body"
"""The field name for errors in the whole body."""


class BodyTooLarge(APIException):
    """The body exceeds the limit of this call."""

    status_code = 413
    default_code = "body_too_large"


class RepeatedKeyError(ValueError):
    """An object has a key twice, so one value would be lost silently."""


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs as a dict, for `object_pairs_hook`. Raises `RepeatedKeyError`."""
    found = dict(pairs)
    if len(found) < len(pairs):
        ((repeated, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise RepeatedKeyError(f"the key {repeated[:100]!r} is repeated")
    return found


class StrictJSONParser(BaseParser):
    """Parses JSON objects. It refuses NUL, lone surrogates, NaN, infinity and deep nesting.

    Raises `BodyTooLarge` and `InvalidInput`, which names the faulty field.
    """

    media_type = "application/json"

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Any = None,
    ) -> dict[str, Any]:
        view = (parser_context or {}).get("view")
        body = _read(stream, getattr(view, "body_limit", None) or settings.BODY_LIMIT_BYTES)
        return self.read(body)

    def read(self, body: bytes) -> dict[str, Any]:
        """Return the checked content of the body."""
        return parse_object(body)


class FactsJSONParser(StrictJSONParser):
    """Parses bodies of executors.

    Their facts are free text, and one bad fact must not stop the rest.
    """

    def read(self, body: bytes) -> dict[str, Any]:
        """Return the content of the body, made fit to be stored."""
        return parse_facts(body)


def _read(stream: IO[bytes], limit: int) -> bytes:
    body = stream.read(limit + 1)
    if len(body) <= limit:
        return body
    drain(stream, len(body))
    raise BodyTooLarge(f"the body is over the limit of {limit} bytes")


def drain(stream: IO[bytes], taken: int) -> None:
    """Read the rest of the body, up to 16 MiB with the bytes already taken.

    Otherwise a client that is still sending would see a reset connection instead of the answer.
    """
    while taken < DRAIN_BYTES and (more := stream.read(256 * 1024)):
        taken += len(more)


def parse_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object in `body`; an empty body is an empty object."""
    value = load_object(body)
    return value if _is_plain(body, value) else checked(value)


def checked(value: dict[str, Any]) -> dict[str, Any]:
    """Return `value`. Raises `InvalidInput` with each field whose value no request may have."""
    errors: dict[str, list[str]] = {}
    _inspect(value, "", 0, errors)
    if errors:
        raise InvalidInput(errors)
    return value


def parse_facts(body: bytes) -> dict[str, Any]:
    """Return the object like `parse_object`.

    Bad characters become U+FFFD, other bad values null.
    """
    value = load_object(body)
    if _is_plain(body, value):
        return value
    return {clean_text(key): _storable(item, 1) for key, item in value.items()}


def _is_plain(body: bytes, value: dict[str, Any]) -> bool:
    """Return whether the value of this body surely has nothing that must not be stored.

    JSON can express a NUL or a lone surrogate only by an escape, so that no text is looked at.
    """
    return b"\\u" not in body and _is_sound(value, 1)


def _is_sound(value: dict[str, Any] | list[Any], depth: int) -> bool:
    """Return whether all numbers in it are finite and it is not too deep."""
    if depth >= MAX_DEPTH:
        return False
    for item in value.values() if isinstance(value, dict) else value:
        kind = type(item)
        if kind is dict or kind is list:
            if not _is_sound(item, depth + 1):
                return False
        elif kind is float and not math.isfinite(item):
            return False
    return True


def _storable(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict | list) and depth > MAX_DEPTH:
        return None
    if isinstance(value, dict):
        return {clean_text(key): _storable(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_storable(item, depth + 1) for item in value]
    return value


def load_object(body: bytes, **options: Any) -> dict[str, Any]:
    """Return the unchecked JSON object in `body`; `options` are those of `json.loads`."""
    if not body.strip():
        return {}
    try:
        value = json.loads(body, **options) if options else _loaded(body)
    except RecursionError:
        raise InvalidInput({_deep_field(body): [_TOO_DEEP]}) from None
    except (ValueError, UnicodeDecodeError) as error:
        raise InvalidInput({BODY: [f"is not valid JSON: {error}"]}) from None
    if not isinstance(value, dict):
        raise InvalidInput({BODY: ["must be a JSON object"]})
    return value


def _loaded(body: bytes) -> Any:
    try:
        return from_json(body)
    except ValueError:
        # It takes more, such as UTF-16, and says better what is wrong.
        return json.loads(body)


_TOO_DEEP = f"is nested deeper than {MAX_DEPTH} levels"


def _inspect(value: Any, path: str, depth: int, errors: dict[str, list[str]]) -> None:
    """Collect the errors of values that no request may have."""
    if depth > MAX_DEPTH:
        errors[_FIELD.sub("", path) or BODY] = [_TOO_DEEP]
    elif isinstance(value, dict):
        for key, item in value.items():
            name = f"{path}.{_printable(key)}" if path else _printable(key)
            if _bad_text(key):
                errors[name] = ["the name holds a NUL or a lone surrogate"]
            _inspect(item, name, depth + 1, errors)
    elif isinstance(value, list):
        for position, item in enumerate(value):
            _inspect(item, f"{path}[{position}]", depth + 1, errors)
    elif isinstance(value, str) and _bad_text(value):
        errors[path] = ["holds a NUL or a lone surrogate, which cannot be stored"]
    elif isinstance(value, float) and not math.isfinite(value):
        errors[path] = ["must be a finite number"]


_FIELD = re.compile(r"[.\[].*", re.DOTALL)
_BAD_TEXT = re.compile("[\x00\ud800-\udfff]")


def _bad_text(text: str) -> bool:
    return _BAD_TEXT.search(text) is not None


def _printable(key: str) -> str:
    return _BAD_TEXT.sub("\N{REPLACEMENT CHARACTER}", key)[:100]


_TOKENS = re.compile(rb'("(?:[^"\\]|\\.)*")(\s*:)?|[\[\]{}]')


def _deep_field(body: bytes) -> str:
    """Return the top-level field whose nesting exceeds the limit."""
    depth, field = 0, b""
    for match in _TOKENS.finditer(body):
        if match.group(1):
            if depth == 1 and match.group(2):
                field = match.group(1).strip(b'"')
        elif match.group() in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                break
        else:
            depth -= 1
    return field.decode(errors="replace") or BODY
