"""What pods get below what their sessions say, as far as it decides on their nodes. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from base.podspec.extended import is_extended, tolerations_for
from base.podspec.pod_defaults import completed, placing_of
from scheduler.core.fit import Ask
from scheduler.core.node_rules import NodeRules, node_rules


class Below(NamedTuple):
    """The pod defaults of an executor, or of a project and an executor, and what its cluster adds.

    `defaults` are JSON texts with the fields that decide on nodes; the first ones win.
    `tolerations`: whether the cluster adds tolerations for extended resources.
    """

    defaults: tuple[str, ...] = ()
    tolerations: bool = False

    def under(self, own: str) -> "Below":
        """Return the same with the defaults of a project, which win; "" for none."""
        return self._replace(defaults=(own, *self.defaults)) if own else self

    def text(self, own: str) -> str:
        """Return `own`, as in `ask`, with these defaults below it."""
        return json.dumps(placing_of(_completed(own, self.defaults))) if self.defaults else own

    def ask(self, ask: Ask, own: str) -> Ask:
        """Return what a session asks for here; `own` is what its pod specification says of nodes,
        as JSON text, "" for nothing."""
        added = self.tolerations and tuple(sorted(filter(is_extended, ask.amounts)))
        if not (self.defaults or added):
            return ask
        return replace(ask, rules=_rules(own, self.defaults, added or ()))


def below_of(placing: Mapping[str, Any], *, tolerations: bool) -> Below:
    """Return what an executor tells of its pods. `placing` are its pod defaults."""
    return Below((json.dumps(placing, sort_keys=True),) if placing else (), tolerations)


NOTHING_BELOW = Below()


@lru_cache(maxsize=4096)
def _rules(own: str, defaults: Sequence[str], added: Sequence[str]) -> NodeRules:
    # Equal texts get the same rules, by which rooms remember where nothing is free.
    spec = _completed(own, defaults)
    tolerations = [*(spec.get("tolerations") or ()), *tolerations_for(added)]
    return node_rules({**spec, "tolerations": tolerations})


def _completed(own: str, defaults: Sequence[str]) -> dict[str, Any]:
    layers = [json.loads(each) for each in defaults]
    spec: dict[str, Any] = completed(json.loads(own) if own else {}, *layers)["spec"]
    return spec
