"""The resources that a session asks for, in one of two forms.

Plain amounts by resource are both what the session gets and its limit. The other form is `requests`
and `limits`.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from base.podspec.quantity import parse_resource, probably_meant

CPU, MEMORY = "cpu", "memory"
_BYTES = (MEMORY, "ephemeral-storage", "hugepages-")
LEAST_BYTES = 2**20
"""The least bytes that somebody asks for: less is a mistake in the unit."""
MOST_FAULTS = 5
"""Most amounts that one error tells of."""
GROUPS = ("requests", "limits")
Amounts = dict[str, Decimal]
Unparsed = Mapping[str, Any]
"""Amounts as they are spelled."""


def grouped(resources: Mapping[str, Any]) -> bool:
    """Return whether the resources are given as `requests` and `limits`."""
    return any(group in resources for group in GROUPS)


def groups(resources: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the amounts as `requests` and `limits`, unparsed; plain amounts are both."""
    if not grouped(resources):
        return dict.fromkeys(GROUPS, resources)
    return {group: resources.get(group) or {} for group in GROUPS}


def check(resources: object) -> None:
    """Raise ValueError, in words for the user, unless these are valid resources of a session."""
    for group in _groups_given(resources):
        for name, amount in group.items():
            try:
                parse_resource(amount)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None


def sensible_check(resources: object) -> None:
    """Raise ValueError as `check`, and for amounts that are valid but cannot be meant."""
    given = _groups_given(resources)
    for group in given:
        amounts_check(group)
    if len(given) < len(GROUPS):
        return
    wanted, limits = given
    for name in wanted.keys() & limits.keys():
        if parse_resource(wanted[name]) > parse_resource(limits[name]):
            why = f"the request of {wanted[name]} is above its limit of {limits[name]}"
            raise ValueError(f"{name}: {why}")


def _groups_given(resources: object) -> list[Mapping[str, Any]]:
    """Return the plain amounts, or those of each group that is given. Raises ValueError."""
    if not isinstance(resources, Mapping):
        raise ValueError("must be an object of resource names and quantities")
    if grouped(resources) and resources.keys() - set(GROUPS):
        raise ValueError("give either plain amounts, or 'requests' and 'limits', not both")
    found = [resources[name] for name in GROUPS if name in resources] or [resources]
    if not all(isinstance(group, Mapping) for group in found):
        raise ValueError("'requests' and 'limits' must be objects")
    return found


def amounts_check(amounts: Mapping[str, Any]) -> None:
    """Raise ValueError, in words for the user, unless each of these is a sensible amount."""
    faults = []
    for name, amount in amounts.items():
        try:
            read_amount(name, amount)
        except ValueError as error:
            faults.append(f"{name}: {error}")
    if faults:
        raise ValueError("; ".join(faults[:MOST_FAULTS]))


def read_amount(name: str, text: str | float) -> Decimal:
    """Return the amount of the resource `name`.

    Raises ValueError for less than LEAST_BYTES bytes, but 0, and for parts of what is counted.
    """
    amount = parse_resource(text)
    if of_bytes(name):
        if 0 < amount < LEAST_BYTES:
            meant = probably_meant(text)
            raise ValueError(
                f"{text} is less than 1Mi{f'; did you mean {meant}?' if meant else ''}"
            )
    elif name != CPU and amount % 1:
        raise ValueError(f"must be a whole number, not {text}: only {CPU} has parts")
    return amount


def of_bytes(name: str) -> bool:
    """Return whether a resource is measured in bytes."""
    return name.startswith(_BYTES)


def requested(resources: Mapping[str, Any]) -> Amounts:
    """Return what is reserved for each pod: its `requests`, or else its `limits`.

    Raises ValueError.
    """
    return _parsed(resources, "limits", "requests")


def spellings(resources: Mapping[str, Any]) -> Unparsed:
    """Return what is reserved for each pod as it is spelled."""
    return _chosen(resources, "limits", "requests")


def limited(resources: Mapping[str, Any]) -> Amounts:
    """Return what each pod may use at most: its `limits`, or else its `requests`.

    Raises ValueError.
    """
    return _parsed(resources, "requests", "limits")


def total(parts: Iterable[Amounts]) -> Amounts:
    """Return the sum of amounts by resource."""
    summed: Amounts = {}
    for part in parts:
        for name, value in part.items():
            summed[name] = summed.get(name, Decimal(0)) + value
    return summed


def _parsed(resources: Mapping[str, Any], *names: str) -> Amounts:
    chosen = _chosen(resources, *names)
    return {name: parse_resource(amount) for name, amount in chosen.items()}


def _chosen(resources: Mapping[str, Any], *names: str) -> Unparsed:
    """Return the amounts of the groups together; a later group wins."""
    found = groups(resources)
    return {name: amount for group in names for name, amount in found[group].items()}
