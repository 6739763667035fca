"""Whether sessions would ever fit. The scheduler registers the function that knows the nodes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple


class Asked(NamedTuple):
    """What a session of a project asks for, in the form of its specification."""

    project_id: int
    resources: Mapping[str, Any]
    pods: int
    pod_spec: Mapping[str, Any] | None


class Unfit(NamedTuple):
    """Why a session fits on no executor, and the field that asks for too much."""

    field: str
    why: str


Check = Callable[[Sequence[Asked]], list[Unfit | None]]
"""A function that says of each session why it would never fit; None if it would."""
_check: list[Check] = []


def check_with(check: Check) -> None:
    """Register the scheduler's function that knows what could ever fit."""
    _check[:] = [check]


def unfits(asked: Sequence[Asked]) -> list[Unfit | None]:
    """Return for each session why it would never fit; None if it would, or nobody knows.

    It takes one query if any of them asks for resources or has a `pod_spec`, else none.
    """
    if not _check or not any(each.resources or each.pod_spec for each in asked):
        return [None] * len(asked)
    return _check[0](asked)
