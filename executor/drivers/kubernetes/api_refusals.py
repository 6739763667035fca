"""The meaning of the error answers of a cluster's API. Pure.

The API gives one reason, `Forbidden`, for faults of the executor, of the object and of the moment.
Only the message tells them apart.
"""

import re
from collections.abc import Mapping
from typing import Any

Object = dict[str, Any]

LONGEST_ADVICE = 30.0


class ApiRefusal(Exception):
    """The API server refused a call or did not answer. `object` is what the call was to create."""

    object: Object | None = None


class Invalid(ApiRefusal):
    """The API server cannot accept the object. The fault is its author's."""


class OwnTrouble(ApiRefusal):
    """This executor lacks a right. The fault is neither the session's nor the cluster's."""


class NamespaceTrouble(OwnTrouble):
    """This executor lacks a right or a quota in one namespace."""


class Transient(ApiRefusal):
    """The call failed but may work later, after at least `after` seconds.

    `unsure` means that the call may have succeeded and only its answer is lost.
    """

    def __init__(self, message: str, after: float = 0.0, *, unsure: bool = True):
        super().__init__(message)
        self.after = after
        self.unsure = unsure


class TooMany(Transient):
    """The cluster is overloaded and asks to wait."""


class NamespaceTransient(Transient):
    """The call may work later. Other namespaces are not affected."""


class NotThere(ApiRefusal):
    """The object does not exist."""


class Exists(ApiRefusal):
    """The name is taken, or a precondition on the object does not hold."""


class Expired(ApiRefusal):
    """The version to watch from is too old. The list must be read again."""


def refusal_of(
    status: int,
    answer: Object,
    headers: Mapping[str, str] | None = None,
    *,
    making: bool = False,  # creating an object
) -> ApiRefusal:
    """Return the error for an answer of 400 or more. `answer` is its `Status` or any other JSON."""
    meaning = _meaning(status, answer, making)
    message = f"{answer.get('message') or 'no reason given'} ({status})"
    if issubclass(meaning, Transient):
        # Webhooks answer before anything is written, so the call has surely failed.
        unsure = (status >= 500 and meaning is Transient) or status == 408
        return meaning(message, _retry_after(answer, headers or {}), unsure=unsure)
    return meaning(message)


def _meaning(status: int, answer: Object, making: bool) -> type[ApiRefusal]:
    message = str(answer.get("message") or "")
    if status in _PASSING or status >= 500:
        usual = TooMany if status == 429 else Transient
        return next((kind for words, kind in _BY_WORDS if words.search(message)), usual)
    if status == 413 or _DENIED.search(message):
        return Invalid
    if answer.get("kind") != "Status" and status != 410:
        # A proxy before the API server refused, and it knows nothing of the object.
        return OwnTrouble
    if making and status == 409 and answer.get("reason") != "AlreadyExists":
        return NamespaceTransient  # Somebody else has just changed the namespace's quota.
    if status == 404 and _details(answer).get("kind") == "namespaces":
        return NamespaceTrouble
    return _meaning_of_403(answer) if status == 403 else _MEANINGS.get(status, Invalid)


_MEANINGS: dict[int, type[ApiRefusal]] = {
    401: OwnTrouble,
    404: NotThere,
    409: Exists,
    410: Expired,
}
_PASSING = frozenset({408, 425, 429})
_BY_WORDS: tuple[tuple[re.Pattern[str], type[ApiRefusal]], ...] = (
    (re.compile("request is too large|message larger than max"), Invalid),
    # A version from the future means that etcd was restored.
    (re.compile("Too large resource version"), Expired),
    (re.compile("fail(ed|ing) (calling|to call) webhook|resource quota evaluat"),
     NamespaceTransient),
)  # fmt: skip
_DENIED = re.compile("admission webhook \"|ValidatingAdmissionPolicy '")
# Controllers handle a new namespace, and a new quota, with a short delay.
_NOT_YET = re.compile(
    'looking up service account [^ ]+/default: .* "default" not found|status unknown for quota'
)
_OURS = re.compile('User "[^"]*" cannot |exceeded quota|is being terminated')


def _meaning_of_403(answer: Object) -> type[ApiRefusal]:
    """Return the error for a 403.

    A quota that misses a limit on the object is the object's fault. A quota that is used up is not.
    """
    message = str(answer.get("message") or "")
    causes = _details(answer).get("causes") or ()
    if _NOT_YET.search(message):
        return NamespaceTransient
    terminating = any(cause.get("reason") == "NamespaceTerminating" for cause in causes)
    return NamespaceTrouble if terminating or _OURS.search(message) else Invalid


def _details(answer: Object) -> Object:
    details = answer.get("details")
    return details if isinstance(details, dict) else {}


def _retry_after(answer: Object, headers: Mapping[str, str]) -> float:
    advice = headers.get("Retry-After") or _details(answer).get("retryAfterSeconds")
    try:
        return min(LONGEST_ADVICE, max(0.0, float(advice or 0)))
    except (TypeError, ValueError):
        return 0.0
