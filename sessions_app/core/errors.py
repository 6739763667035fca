"""Refusals of services, in the terms of the domain; the doors translate them to their own form."""


class DomainError(Exception):
    """The base of refusals. `title` names the kind; the text says what happened and what to do."""

    title = "The request cannot be carried out"

    def __init__(self, detail: str):
        self.detail = detail
        super().__init__(detail)


class InvalidInput(DomainError):
    """An input is wrong; `errors` names the fields."""

    title = "The request is not valid"

    def __init__(self, errors: dict[str, list[str]]):
        self.errors = errors
        super().__init__("; ".join(f"{name}: {' '.join(texts)}" for name, texts in errors.items()))


class NotFound(DomainError):
    """The thing does not exist, or the actor may not see it."""

    title = "Not found"


class NotPermitted(DomainError):
    """The actor may see the thing, but may not do this with it."""

    title = "Not permitted"


class TooLarge(DomainError):
    """The call asks for too much at once; the text says how to ask for less."""

    title = "Too much for one call"


class Conflict(DomainError):
    """The present state does not allow it; `extra` goes into the problem detail."""

    title = "Conflict"

    def __init__(self, detail: str, **extra: object):
        self.extra = extra
        super().__init__(detail)


class Outdated(DomainError):
    """The record has changed since the caller read it."""

    title = "Changed meanwhile"


class SecretUnreadable(DomainError):
    """A secret is encrypted under a key that this server does not have."""

    title = "A secret cannot be read"


class QuotaExceeded(DomainError):
    """The quota has no room; `extra` names the quota, its use and its limit."""

    title = "Quota exceeded"

    def __init__(self, detail: str, *, errors: dict[str, list[str]], **quota: str):
        self.extra: dict[str, object] = {"code": "quota_exceeded", "quota": quota, "errors": errors}
        super().__init__(detail)
