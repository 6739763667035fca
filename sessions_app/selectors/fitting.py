"""Whether sessions would ever fit. The scheduler registers the function that knows the nodes."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple


class Asked(NamedTuple):
    """What a session of a project asks for, in the form of its specification."""

    project_id: int
    resources: Mapping[str, Any]
    pods: int
    pod_spec: Mapping[str, Any] | None


class Unfit(NamedTuple):
    """Why a session fits on no executor, and the field that asks for too much.

    Without a field it asks for nothing wrong: its project has no executor, which may come.
    """

    field: str
    why: str


Check = Callable[[Sequence[Asked]], list[Unfit | None]]
"""A function that says of each session why it would never fit; None if it would."""
Most = Callable[[Sequence[Asked]], list[Decimal | None]]
"""A function that says how much memory in bytes the pods of each session could have at most."""
_check: list[Check] = []
_most: list[Most] = []


def check_with(check: Check, most: Most) -> None:
    """Register the scheduler's functions that know what could ever fit."""
    _check[:], _most[:] = [check], [most]


def unfits(asked: Sequence[Asked]) -> list[Unfit | None]:
    """Return for each session why it would never fit; None if it would, or nobody knows.

    One query.
    """
    return _check[0](asked) if _check and asked else [None] * len(asked)


def most_memory(asked: Sequence[Asked]) -> list[Decimal | None]:
    """Return for each session the most memory in bytes that each of its pods could have.

    None: nobody knows. One query, and none for no sessions.
    """
    return _most[0](asked) if _most and asked else [None] * len(asked)
