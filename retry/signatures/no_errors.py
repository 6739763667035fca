"""What only mentions errors: counts of none, and measures."""

from typing import Any

from retry.signatures.engine import compiled, replaced, simple

_MANY = r"errors|error\(s\)|failures|exceptions|problems|issues|violations|timeouts|crashes"
# Said of one, too: `rank 0 failed`, `GPU 0 error`, `batch size is invalid: 0`.
_ONE = r"error|failure|failed|killed|aborted|crashed|timed out"
_LIKE = r"unreachable|missing|invalid|rejected|refused|denied|unknown"
_OF = r"(?: ?/ ?[0-9]++| (?:out )?of [0-9]++)?+"
_KIND = (
    r" (?:(?:fatal|critical|other|unexpected|new|validation|syntax|tests?|tasks?|jobs?|steps?"
    r"|files?|checks?|cases?|rows?|records?) )?+(?:(?:were|have|has) )?+"
)
_ZERO = rf"0{_OF}{_KIND}"
_COUNTED = simple(
    # A label that such a line has in spite of what it says.
    r"(?i)(?:\b(?:error|fatal)(?: summary)?+\b[\]:| -]++(?:found )?+)?(?<![\w.=])"
    rf"(?:{_ZERO}(?:{_MANY})|(?:(?<!\w )|(?<=and )|(?<=with )|(?<=found )|(?<=passed )){_ZERO}"
    rf"(?:{_ONE}|{_LIKE}))(?!\w| ?[:=])"
)
_TOTAL = r"(?:[ _-](?:found|counts?|total|tests?|tasks?|jobs?|steps?|files?|rows?|records?))?+"
_IS = rf"{_TOTAL}[\"']?+ *+[:=|] *+[\"']?+0(?!\w|\.\w)"
_ASSIGNED = simple(
    # `KeyError: 0` and `error: 0 rows` are messages; `failed: 0 skipped: 3` counts.
    rf"(?im)(?:{_MANY}){_IS}|(?<![a-z])(?:{_ONE}){_IS}(?!:| (?!(?:out )?of )\w++(?! ?[:=]))"
    rf"|(?:{_LIKE})=0(?!\w|\.\w)|(?:{_MANY}|failed) ++0(?= *+(?:$|[,;|)]))"
)
_OTHERS = compiled(
    r"(?i)\b\w*errors?\w*\s*[:=]\s*[-+]?[0-9]*\.[0-9]+(?:[eE][-+]?[0-9]+)?"
    r"|\berrors\s*:\s*[\w ]+=\s*[-+]?[0-9]"
    r"|\b(?:no|without|any) (?:errors?|failures?|exceptions?)\b|error[ _-](?:rate|bars?|margin)"
)


def without_none(line: bytes) -> bytes:
    """Return a line without what only counts or measures errors."""
    if b"0" in line:
        line = _ASSIGNED.sub(b" ", _COUNTED.sub(b" ", line))
    return replaced(_OTHERS, _gap, line)


def tells_of_none(line: bytes) -> bool:
    """Return whether a line only counts or measures errors, such as `0 errors`."""
    return without_none(line) != line


def _gap(_match: Any) -> bytes:
    return b" "
