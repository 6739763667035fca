"""What a log puts before each line of a traceback: the same but for its numbers."""

from retry.signatures.engine import simple

_NUMBER = simple(r"[0-9]++")


class Prefix:
    """A prefix of lines. Its numbers may be others in each line, as those of a time are."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._parts = _NUMBER.split(text) if text else [text]

    def is_before(self, line: bytes) -> bool:
        """Return whether a line has the prefix."""
        return self.length_in(line) >= 0

    def length_in(self, line: bytes) -> int:
        """Return the length of the prefix in a line, or -1 if the line has another one."""
        if line.startswith(self._text):
            return len(self._text)
        first, *rest = self._parts
        if not rest or not line.startswith(first):
            return -1
        end = len(first)
        for part in rest:
            number = _NUMBER.match(line, end)
            if number is None or not line.startswith(part, number.end()):
                return -1
            end = number.end() + len(part)
        return end

    def removed(self, line: bytes) -> bytes:
        """Return a line without the prefix, or as it is if it has another one."""
        return line[max(self.length_in(line), 0) :]
