"""Why a session does not fit, in words for people. Pure."""

from collections.abc import Mapping, Sequence
from decimal import Decimal

from podspec.quantity import in_one_unit
from podspec.resources import Unparsed, of_bytes
from scheduler.core.fit import ANOTHER_NODE, NO_NODE, ONE_NODE, PODS, Misfit
from scheduler.core.node_rules import AFFINITY, LABEL, TAINT

MOST_NAMED = 3
"""Maximum number of executors named in a message."""
_WHOLE_NODES = {
    NO_NODE: "it has no nodes",
    ONE_NODE: "no node has all that it needs",
    ANOTHER_NODE: "only the node that it avoids could run it",
}


def fits_nowhere(misfits: Sequence[tuple[str, Misfit]], asked: Unparsed) -> tuple[str, Misfit]:
    """Return why a session fits on none of these executors, even empty; and the best misfit.

    The executors that have most of what is missing come first. `asked` are the session's own
    spellings of amounts: all amounts are told in its units.
    """
    ranked = sorted(misfits, key=lambda each: -each[1].available / (each[1].wanted or 1))
    texts = [f"{name}: {never_words(misfit, asked)}" for name, misfit in ranked[:MOST_NAMED]]
    return f"it fits on no executor: {listed(texts, len(ranked))}", ranked[0][1]


def listed(texts: Sequence[str], of: int) -> str:
    """Return the texts as one, with the number of those left out."""
    more = of - len(texts)
    return "; ".join(texts) + (f"; and {more} more" if more > 0 else "")


def never_words(misfit: Misfit, asked: Unparsed) -> str:
    """Return why not even empty nodes could hold a session."""
    about, _, what = misfit.resource.partition(" ")
    if about == LABEL:
        return _label_words(what)
    if about == TAINT:
        return f"no node is without the taint {what}, which it does not tolerate"
    if misfit.resource == PODS:
        return f"of its {misfit.wanted:f} pods only {misfit.available:f} fit at once"
    if misfit.resource in _WHOLE_NODES:
        return _WHOLE_NODES[misfit.resource]
    wanted, has = _amounts(misfit, asked)
    return f"{misfit.resource}, of which it needs {wanted} and the largest node has {has}"


def now_words(misfit: Misfit, asked: Unparsed) -> str:
    """Return why a session does not fit beside what runs."""
    wanted, free = _amounts(misfit, asked)
    return f"{misfit.resource}, of which it needs {wanted} and {free} is free"


def field_of(misfit: Misfit) -> str:
    """Return the field of a submission that asks for what no node has."""
    if misfit.resource.partition(" ")[0] in {LABEL, TAINT}:
        return "pod_spec"
    return "cluster_size" if misfit.resource == PODS else "resources"


def _label_words(what: str) -> str:
    if what == AFFINITY:
        return "no node matches its node affinity"
    return f"no node has {'all of the labels' if ', ' in what else 'the label'} {what}"


def _amounts(misfit: Misfit, asked: Mapping[str, object]) -> tuple[str, str]:
    name = misfit.resource
    amounts = (misfit.wanted, max(misfit.available, Decimal(0)))
    wanted, available = in_one_unit(amounts, asked.get(name), of_bytes=of_bytes(name))
    return wanted, available
