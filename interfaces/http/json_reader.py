"""Reads a large JSON body piece by piece. Only the piece at hand is in memory.

The caller walks through the outer objects and lists, and reads the values inside of them one at a
time.
"""

import codecs
import json
import re
from collections.abc import Iterator
from typing import IO, Any

from interfaces.http.parsing import BodyTooLarge, RepeatedKeyError, drain, once

PIECE = 256 * 1024
_SPACE = re.compile(r"[ \t\n\r]*")
_PLAIN = json.JSONDecoder()


class InvalidJSONError(Exception):
    """The text is no JSON, or has not the expected shape. The message says what is wrong."""


class TooDeepError(Exception):
    """A value is nested too deeply to be read."""


_STRICT = json.JSONDecoder(object_pairs_hook=once)


class JSONReader:
    """Reads UTF-8 from `stream`, up to `limit` bytes; more raise `BodyTooLarge`.

    Every method raises `InvalidJSONError`.
    """

    def __init__(self, stream: IO[bytes], limit: int):
        self._stream = stream
        self._limit = limit
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text = ""
        self._at = 0
        self._taken = 0
        self._ended = False

    def next_is(self, mark: str) -> bool:
        """Return whether the next value begins with `mark`: `{` for an object, `[` for a list."""
        return self._next() == mark

    def members(self) -> Iterator[str]:
        """Yield the keys of the next object. The caller reads the value after each key."""
        self._expect("{")
        if self._accept("}"):
            return
        while True:
            if self._next() != '"':
                raise self._wrong("the name of a member")
            key: str = self.value()
            self._expect(":")
            yield key
            if self._accept("}"):
                return
            self._expect(",")

    def items(self) -> Iterator[int]:
        """Yield the positions in the next list. The caller reads the item at each position."""
        self._expect("[")
        if self._accept("]"):
            return
        position = 0
        while True:
            yield position
            if self._accept("]"):
                return
            self._expect(",")
            position += 1

    def value(self, *, strict: bool = False) -> Any:
        """Return the next value; `strict` refuses repeated keys. Raises `TooDeepError`."""
        self._next()
        decoder = _STRICT if strict else _PLAIN
        while True:
            try:
                value, end = decoder.raw_decode(self._text, self._at)
            except RecursionError:
                raise TooDeepError from None
            except RepeatedKeyError as error:
                raise InvalidJSONError(str(error)) from None
            except ValueError as error:
                # The end of the value may not have been read yet.
                if not self._fill():
                    raise InvalidJSONError(f"is not valid JSON: {error}") from None
                continue
            # A number at the end of the text may continue: 1 may become 1e+5.
            if end + 2 >= len(self._text) and self._fill():
                continue
            self._at = end
            return value

    def end(self) -> None:
        """Check that nothing follows."""
        if self._next():
            raise self._wrong("the end")

    def drain(self) -> None:
        """Read the rest of the body, like `parsing.drain`."""
        drain(self._stream, self._taken)

    def _next(self) -> str:
        """Return the next character that is no space, without taking it; empty at the end."""
        while True:
            found = _SPACE.match(self._text, self._at)
            self._at = found.end() if found else self._at
            if self._at < len(self._text) or not self._fill():
                return self._text[self._at : self._at + 1]

    def _accept(self, mark: str) -> bool:
        if self._next() != mark:
            return False
        self._at += 1
        return True

    def _expect(self, mark: str) -> None:
        if not self._accept(mark):
            raise self._wrong(repr(mark))

    def _wrong(self, wanted: str) -> InvalidJSONError:
        found = self._text[self._at : self._at + 20]
        return InvalidJSONError(f"is not valid JSON: {wanted} is expected, not {found!r}")

    def _fill(self) -> bool:
        """Read more: at least as much as is buffered, so that long values are not rescanned too
        often."""
        if self._ended:
            return False
        wanted = max(PIECE, len(self._text) - self._at)
        piece = self._stream.read(min(wanted, self._limit + 1 - self._taken))
        self._taken += len(piece)
        if self._taken > self._limit:
            raise BodyTooLarge(f"the body is over the limit of {self._limit} bytes")
        self._ended = not piece
        try:
            more = self._decoder.decode(piece, final=self._ended)
        except UnicodeDecodeError as error:
            raise InvalidJSONError(f"is not valid JSON: {error}") from None
        if not self._ended:
            self._text = self._text[self._at :] + more
            self._at = 0
        return not self._ended
