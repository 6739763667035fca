"""Why a session does not fit, in words for people. Pure."""

from collections.abc import Mapping, Sequence
from decimal import Decimal

from base.podspec.quantity import in_one_unit
from base.podspec.resources import Unparsed, of_bytes
from scheduler.core.fit import ANOTHER_NODE, NO_NODE, ONE_NODE, PODS, Misfit
from scheduler.core.lacks import Lack, Lacks
from scheduler.core.node_rules import AFFINITY, LABEL, TAINT

_KINDS = frozenset({LABEL, TAINT})
MOST_NAMED = 3
"""Maximum number of executors named in a message."""
_WHOLE_NODES = {
    NO_NODE: "it has no nodes",
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
    lacks = misfit.lacks
    about, _, what = (lacks.most if lacks and lacks.common else misfit.resource).partition(" ")
    if about in _KINDS and (lacks is None or lacks.common):
        return _none_words(about, what)
    if about in _KINDS or misfit.resource == ONE_NODE:
        words = f": {_lacks_words(lacks, asked)}" if lacks else ""
        return f"no node has all that it needs{words}"
    if misfit.resource == PODS:
        return f"of its {misfit.wanted:f} pods only {misfit.available:f} fit at once"
    if misfit.resource in _WHOLE_NODES:
        return _WHOLE_NODES[misfit.resource]
    wanted, has = _amounts(misfit.resource, misfit.wanted, misfit.available, asked)
    return f"{misfit.resource}, of which it needs {wanted} and the largest node has {has}"


def now_words(misfit: Misfit, asked: Unparsed) -> str:
    """Return why a session does not fit beside what runs."""
    wanted, free = _amounts(misfit.resource, misfit.wanted, misfit.available, asked)
    return f"{misfit.resource}, of which it needs {wanted} and {free} is free"


def field_of(misfit: Misfit) -> str:
    """Return the field of a submission that asks for what no node has."""
    nearest = misfit.lacks.short[0].what if misfit.lacks else ""
    what = nearest if misfit.resource == ONE_NODE else misfit.resource
    if what.partition(" ")[0] in _KINDS:
        return "pod_spec"
    return "cluster_size" if misfit.resource == PODS else "resources"


def _none_words(about: str, what: str) -> str:
    if about == TAINT:
        return f"no node is without the taint {what}, which it does not tolerate"
    if what == AFFINITY:
        return "no node matches its node affinity"
    return f"no node has the label {what}"


def _lacks_words(lacks: Lacks, asked: Unparsed) -> str:
    """Return what most nodes lack, and what the nearest one lacks."""
    nearest = " and ".join(_nearest_words(each, asked) for each in lacks.short)
    if lacks.nodes == 1:
        return f"its only one, {lacks.nearest}, {nearest}"
    number = f"{lacks.most_nodes} of {lacks.nodes} nodes"
    return f"{number} {_most_words(lacks)}; the nearest, {lacks.nearest}, {nearest}"


def _most_words(lacks: Lacks) -> str:
    about, _, what = lacks.most.partition(" ")
    one = lacks.most_nodes == 1
    if about == TAINT:
        return f"{'has' if one else 'have'} the taint {what}, which it does not tolerate"
    if lacks.most == f"{LABEL} {AFFINITY}":
        return f"{'does' if one else 'do'} not match its node affinity"
    if about == LABEL:
        return f"{'has' if one else 'have'} no label {what}"
    return f"{'has' if one else 'have'} too little {lacks.most}"


def _nearest_words(lack: Lack, asked: Unparsed) -> str:
    about, _, what = lack.what.partition(" ")
    if about == TAINT:
        return f"has the taint {what}, which it does not tolerate"
    if lack.what == f"{LABEL} {AFFINITY}":
        return "does not match its node affinity"
    if about == LABEL:
        return f"has no label {what}"
    wanted, has = _amounts(lack.what, lack.wanted, lack.has, asked)
    return f"has {has} of the {wanted} {lack.what} that it needs"


def _amounts(
    name: str, wanted: Decimal, available: Decimal, asked: Mapping[str, object]
) -> tuple[str, str]:
    amounts = (wanted, max(available, Decimal(0)))
    told = in_one_unit(amounts, asked.get(name), of_bytes=of_bytes(name))
    return told[0], told[1]
