"""`Idempotency-Key`: it is the `creation_id` when a session is created, and an error elsewhere."""

from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from interfaces.requests.bodies import MAX_CREATION_ID, UNRESERVED, reserved
from sessions_app.core.errors import InvalidInput

HEADER = "Idempotency-Key"
IDEMPOTENCY_KEY = OpenApiParameter(
    HEADER,
    {
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_CREATION_ID,
        "pattern": f"^{UNRESERVED}[!-~]+$",
    },
    OpenApiParameter.HEADER,
    description="The `creation_id` as a header. The body may repeat it.",
)
_ELSEWHERE = (
    "is for POST /api/v2/sessions/ only, where it is the creation_id; here nothing would know it "
    "again, so leave it out (where many are submitted, each has a creation_id of its own)"
)


def refuse_key(request: Request) -> None:
    """Raise `InvalidInput` if a call that would ignore the key has one."""
    if HEADER in request.headers:
        raise InvalidInput({HEADER: [_ELSEWHERE]})


def with_key(request: Request, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body with the key as its `creation_id`. Raises `InvalidInput` if they differ."""
    key = request.headers.get(HEADER)
    if key is None:
        return dict(body)
    if not 1 <= len(key) <= MAX_CREATION_ID:
        raise InvalidInput({HEADER: [f"must have 1 to {MAX_CREATION_ID} characters"]})
    if why := reserved(key):
        raise InvalidInput({HEADER: [why]})
    if body.get("creation_id") not in (None, key):
        raise InvalidInput(
            {HEADER: ["differs from the creation_id of the body: give only one, or the same"]}
        )
    return {**body, "creation_id": key}
