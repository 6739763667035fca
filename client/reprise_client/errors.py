"""The exceptions of calls. Their texts are fit for users."""

from typing import Any


class RepriseError(Exception):
    """The base of all errors of the SDK."""


class ConfigError(RepriseError):
    """The address, the token or the configuration file cannot be used as it is."""


class InvalidRequest(RepriseError):
    """The arguments of a call cannot be written as JSON, such as text that is not valid Unicode.
    Nothing was sent."""

    def __init__(self, fields: list[str], cause: Exception):
        named = f"{', '.join(fields)}: " if fields else ""
        why = str(cause).removeprefix("Error serializing to JSON: ")
        super().__init__(f"{named}cannot be sent as JSON: {why}")


class ServerUnreachable(RepriseError):
    """The server did not answer: wrong address, server down, network cut, or a timeout."""

    def __init__(self, url: str, cause: Exception):
        super().__init__(f"cannot reach the server at {url}: {cause or type(cause).__name__}")


class InvalidAnswer(RepriseError):
    """A successful answer of an unexpected form, most likely from another kind of server."""

    def __init__(self, url: str, excerpt: str):
        super().__init__(f"{url} did not answer as expected; is it a Reprise server? ({excerpt!r})")


class WaitTimeout(RepriseError):
    """The time of a wait is over. The session goes on."""

    def __init__(self, session_id: str, seconds: float):
        super().__init__(f"session {session_id} has not ended after {seconds:g} s")


class ApiError(RepriseError):
    """An error answer, as an RFC 9457 problem detail.

    `status` is the HTTP code and `problem` the whole object. `errors` maps a field to what is wrong
    with it. `retry_after` is the number of seconds that the server asks to wait.
    """

    def __init__(self, status: int, problem: dict[str, Any], retry_after: float = 0.0):
        self.status = status
        self.retry_after = retry_after
        self.problem = problem
        self.title = str(problem.get("title") or f"HTTP {status}")
        self.detail = str(problem.get("detail") or "")
        errors = problem.get("errors")
        self.errors: dict[str, list[str]] = (
            {str(name): _texts(texts) for name, texts in errors.items()}
            if isinstance(errors, dict)
            else {}
        )
        super().__init__(self._text())

    def _text(self) -> str:
        fields = "; ".join(f"{name}: {' '.join(texts)}" for name, texts in self.errors.items())
        details = fields or self.detail
        return f"{self.title}: {details}" if details else self.title


def _texts(value: Any) -> list[str]:
    return [str(text) for text in value] if isinstance(value, list) else [str(value)]
