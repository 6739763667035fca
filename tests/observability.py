"""deploy/observability read as Prometheus and Grafana would: which metrics and labels are used."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import yaml
from prometheus_client.parser import text_string_to_metric_families

ROOT = Path(__file__).parent.parent
PLACE = ROOT / "deploy" / "observability"
DASHBOARD = json.loads((PLACE / "grafana-dashboard.json").read_text())
RULES = [
    rule
    for group in yaml.safe_load((PLACE / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
]
PROMETHEUS_OWN = {"up": {"job", "instance"}}

Exposed = dict[str, set[str]]
"""Sample name -> the labels that some of its samples have."""


def exposed(*scrapes: str) -> Exposed:
    """Return what was scraped."""
    found: Exposed = {name: set(labels) for name, labels in PROMETHEUS_OWN.items()}
    for text in scrapes:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
    return found


def expressions() -> dict[str, str]:
    """Every expression of the dashboard and of the rules, by where it is."""
    found = {f"rule {rule['alert']}": rule["expr"] for rule in RULES}
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            text = target["expr"].replace("$__rate_interval", "5m").replace("$door", ".*")
            found[f"panel {panel['title']} {target['refId']}"] = text
    for variable in DASHBOARD["templating"]["list"]:
        asked = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"])
        assert asked, variable
        found[f"variable {variable['name']}"] = f"sum by ({asked[2]}) ({asked[1]})"
    return found


def faults(expression: str, there: Exposed) -> list[str]:
    """Return the names that an expression uses and nobody exposes; raises `ValueError` if it cannot
    be parsed."""
    found: list[str] = []
    _look(promql_parser.parse(expression), there, found)
    return found


def _look(expression: Any, there: Exposed, found: list[str]) -> set[str]:
    """The labels of the metrics in an expression; what is wrong goes into `found`."""
    if isinstance(expression, promql_parser.VectorSelector):
        labels = there.get(expression.name or "")
        if labels is None:
            found.append(f"there is no {expression.name}")
            return set()
        named = {each.name for each in expression.matchers.matchers}
        found.extend(f"{expression.name} has no {each}" for each in named - labels)
        return labels
    labels = set()
    for part in _parts(expression):
        labels |= _look(part, there, found)
    modifier = getattr(expression, "modifier", None)
    if isinstance(expression, promql_parser.AggregateExpr) and modifier is not None:
        found.extend(f"no metric has {each}" for each in set(modifier.labels) - labels)
    return labels


def _parts(expression: Any) -> Iterator[Any]:
    for name in ("expr", "lhs", "rhs", "param", "vector_selector"):
        part = getattr(expression, name, None)
        if isinstance(part, promql_parser.Expr):
            yield part
    yield from getattr(expression, "args", ())
