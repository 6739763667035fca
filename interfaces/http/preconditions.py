"""`ETag` and `If-Match`: they prevent that concurrent changes overwrite each other.

An `ETag` stands for what can be changed of a record, not for every byte of an answer. It stays the
same if only the server's own fields change, such as the usage of a queue.
"""

import re

from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from sessions_app.core.errors import InvalidInput
from sessions_app.core.versions import Expected

_ONE = r'(W/)?"[!#-~]*"'
IF_MATCH = OpenApiParameter(
    "If-Match",
    {"type": "string", "pattern": rf"^(\*|{_ONE}(\s*,\s*{_ONE})*)$"},
    OpenApiParameter.HEADER,
    description="The `ETag` of the version to change. If it is outdated, the answer is 412.",
)
# RFC 9110, section 8.8.3. Weak tags never match here.
_TAG = re.compile(r'(W/)?"([\x21\x23-\x7e\x80-\xff]*)"')
_LIST = re.compile(rf"{_TAG.pattern}(?:\s*,\s*{_TAG.pattern})*")


def expected_of(request: Request) -> Expected | None:
    """Return the content of `If-Match`; None without it. Raises `InvalidInput`."""
    sent = request.headers.get("If-Match")
    if sent is None:
        return None
    if sent.strip() == "*":
        return Expected(None)
    if not _LIST.fullmatch(sent.strip()):
        raise InvalidInput({"If-Match": ['must be ETags from answers, such as "5f2c", or *']})
    return Expected(frozenset(tag for weak, tag in _TAG.findall(sent) if not weak))


def etag(version: str) -> dict[str, str]:
    """Return the header with a version."""
    return {"ETag": f'"{version}"'}
