"""What it means that a cluster's API said no. Pure.

The API has one reason, `Forbidden`, for what is wrong with the executor, with the object and with
the moment: then only the words tell.
"""

import re
from collections.abc import Mapping
from typing import Any

Object = dict[str, Any]

LONGEST_ADVICE = 30.0


class ApiRefusal(Exception):
    """The API server said no, or nothing. `object` is what was to be made, if anything."""

    object: Object | None = None


class Invalid(ApiRefusal):
    """The object cannot be accepted: its author's fault."""


class OwnTrouble(ApiRefusal):
    """This executor may not do that: the fault of neither session nor cluster."""


class NamespaceTrouble(OwnTrouble):
    """This executor may not do that in this namespace, or it has no place there."""


class Transient(ApiRefusal):
    """May work when tried again, not before `after` seconds. `unsure`: it may have worked already,
    and only the answer is lost."""

    def __init__(self, message: str, after: float = 0.0, *, unsure: bool = True):
        super().__init__(message)
        self.after = after
        self.unsure = unsure


class TooMany(Transient):
    """The cluster asks for patience: it has more to do than it can."""


class NamespaceTransient(Transient):
    """May work when tried again; says nothing of other namespaces."""


class NotThere(ApiRefusal):
    """There is no such object."""


class Exists(ApiRefusal):
    """The name is taken, or the object is not as a precondition says."""


class Expired(ApiRefusal):
    """The past from which to go on is forgotten: list again."""


def refusal_of(
    status: int,
    said: Object,
    headers: Mapping[str, str] | None = None,
    *,
    making: bool = False,  # an object
) -> ApiRefusal:
    """What an answer of 400 or more means; `said` is its `Status`, or whatever else it was."""
    meaning = _meaning(status, said, making)
    message = f"{said.get('message') or 'no reason given'} ({status})"
    if issubclass(meaning, Transient):
        # What a webhook has to say comes before anything is written.
        unsure = (status >= 500 and meaning is Transient) or status == 408
        return meaning(message, _retry_after(said, headers or {}), unsure=unsure)
    return meaning(message)


def _meaning(status: int, said: Object, making: bool) -> type[ApiRefusal]:
    message = str(said.get("message") or "")
    if status in _PASSING or status >= 500:
        usual = TooMany if status == 429 else Transient
        return next((kind for words, kind in _TOLD if words.search(message)), usual)
    if status == 413 or _DENIED.search(message):
        return Invalid
    if said.get("kind") != "Status" and status != 410:
        # What stands before the API server has said no: of the object it knows nothing.
        return OwnTrouble
    if making and status == 409 and said.get("reason") != "AlreadyExists":
        return NamespaceTransient  # Somebody else has just written the namespace's quota.
    if status == 404 and _details(said).get("kind") == "namespaces":
        return NamespaceTrouble
    return _meaning_of_403(said) if status == 403 else _MEANINGS.get(status, Invalid)


_MEANINGS: dict[int, type[ApiRefusal]] = {
    401: OwnTrouble,
    404: NotThere,
    409: Exists,
    410: Expired,
}
_PASSING = frozenset({408, 425, 429})
_TOLD: tuple[tuple[re.Pattern[str], type[ApiRefusal]], ...] = (
    (re.compile("request is too large|message larger than max"), Invalid),
    # Of a future that will not be: etcd was restored.
    (re.compile("Too large resource version"), Expired),
    (re.compile("fail(ed|ing) (calling|to call) webhook|resource quota evaluat"),
     NamespaceTransient),
)  # fmt: skip
_DENIED = re.compile("admission webhook \"|ValidatingAdmissionPolicy '")
# Controllers come to a new namespace, and to a new quota, a moment after it.
_NOT_YET = re.compile(
    'looking up service account [^ ]+/default: .* "default" not found|status unknown for quota'
)
_OURS = re.compile('User "[^"]*" cannot |exceeded quota|is being terminated')


def _meaning_of_403(said: Object) -> type[ApiRefusal]:
    """A quota that lacks a limit to count is about the object; one that is used up is not."""
    message = str(said.get("message") or "")
    causes = _details(said).get("causes") or ()
    if _NOT_YET.search(message):
        return NamespaceTransient
    terminating = any(cause.get("reason") == "NamespaceTerminating" for cause in causes)
    return NamespaceTrouble if terminating or _OURS.search(message) else Invalid


def _details(said: Object) -> Object:
    details = said.get("details")
    return details if isinstance(details, dict) else {}


def _retry_after(said: Object, headers: Mapping[str, str]) -> float:
    advice = headers.get("Retry-After") or _details(said).get("retryAfterSeconds")
    try:
        return min(LONGEST_ADVICE, max(0.0, float(advice or 0)))
    except (TypeError, ValueError):
        return 0.0
