"""Rules, matchers and backoffs of documents in words for people. Pure."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

MATCHERS = (
    "onConditions",
    "onCauses",
    "onSignatures",
    "onFailureCategory",
    "onExitCodes",
    "onTerminationMessage",
    "onPodMessage",
    "onSignatureTitle",
)
_Values = Mapping[str, Any]


def either(items: Iterable[Any], word: str = "or") -> str:
    """Return `a`, `a or b` or `a, b or c`."""
    texts = [str(item) for item in items]
    return f"{', '.join(texts[:-1])} {word} {texts[-1]}" if len(texts) > 1 else "".join(texts)


def rule_label(rule: _Values) -> str:
    """Return a rule's label in counters and decisions: its name, or a short hash of its
    matchers."""
    if rule.get("name"):
        return str(rule["name"])
    matchers = {key: rule[key] for key in (*MATCHERS, "containerName") if rule.get(key) is not None}
    text = json.dumps(matchers, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def rule_words(rule: _Values, policy: _Values) -> str:
    """Return what a rule does and when: `Retry on exit code 137 or 143 of container main, ...`.

    `policy` is the spec of the rule's policy; its values apply where the rule has none.
    """
    return ", ".join(
        [f"{rule.get('action')} on {matcher_words(rule)}", *_consequences(rule, policy)]
    )


def matcher_words(matcher: _Values) -> str:
    """Return the conditions of a matcher in words; all of them must hold."""
    words = [_MATCHER_WORDS[key](matcher[key]) for key in MATCHERS if matcher.get(key)]
    text = " and ".join(words) or "nothing"
    if matcher.get("containerName"):
        text += f" of container {matcher['containerName']}"
    return text + (" (init containers, too)" if matcher.get("includeInitContainers") else "")


def _codes(value: _Values) -> str:
    codes = [str(code) for code in value.get("values", [])]
    if value.get("operator") == "NotIn":
        return f"an exit code other than {either(['0', *codes])}"
    return f"exit code {either(codes)}"


_MATCHER_WORDS: dict[str, Callable[[Any], str]] = {
    "onConditions": lambda value: f"condition {either(value)}",
    "onCauses": lambda value: f"cause {either(value)}",
    "onSignatures": lambda value: f"signature {either(value)}",
    "onFailureCategory": lambda value: f"category {either(value)}",
    "onExitCodes": _codes,
    "onTerminationMessage": lambda value: f"a termination message with /{value.get('pattern')}/",
    "onPodMessage": lambda value: f"a pod message with /{value.get('pattern')}/",
    "onSignatureTitle": lambda value: f"a signature with /{value.get('pattern')}/ in its title",
}


def _consequences(rule: _Values, policy: _Values) -> Sequence[str]:
    if rule.get("action") != "Retry":
        return []
    window = f" in {rule['retryWindow']}" if rule.get("retryWindow") else ""
    consequences = [limit_words(_first(rule, policy, "retryLimit")) + window]
    if rule.get("resetOnProgress"):
        consequences.append("counting anew after progress")
    if rule.get("stopAfterSame"):
        consequences.append(f"not after {rule['stopAfterSame']} equal failures in a row")
    if rule.get("backoff") is not None:
        consequences.append(backoff_words(rule["backoff"]))
    if (_first(rule, policy, "antiAffinity") or {}).get("mode") == "node":
        consequences.append("not on the node where it failed")
    if growth := (rule.get("resources") or {}).get("memory"):
        most = f" up to {growth['max']}" if growth.get("max") else ""
        consequences.append(f"with {growth.get('factor')} times the memory{most}")
    if place := rule.get("placement"):
        consequences.append(_place_words(place))
    return consequences


def _place_words(place: _Values) -> str:
    labels = (place.get("executors") or {}).get("labels") or {}
    wanted = {"nodes": place.get("nodeSelector") or {}, "executors": labels}
    texts = [
        f"{what} with {either((f'{k}={v}' for k, v in each.items()), 'and')}"
        for what, each in wanted.items()
        if each
    ]
    return f"from retry {(place.get('after') or 0) + 1} on at {' and '.join(texts)}"


def _first(rule: _Values, policy: _Values, key: str) -> Any:
    return policy.get(key) if rule.get(key) is None else rule[key]


def limit_words(limit: int | None) -> str:
    """Return how often a rule or a default action retries."""
    if limit is None:
        return "as often as the cluster allows"
    return "never, as its limit is 0" if limit == 0 else f"at most {_times(limit)}"


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def backoff_words(backoff: _Values) -> str:
    """Return `after 10s, 2 times longer each time, at most 5m`; defaults are those of documents."""
    factor = backoff.get("multiplier", 2.0)
    delay, most = backoff.get("initialDelay", "0s"), backoff.get("maxDelay", "10m")
    growth = "" if factor == 1 else f", {factor:g} times longer each time"
    jitter = backoff.get("jitter")
    if jitter is None and backoff.get("jitterRatio") is not None:
        jitter = "deterministic"
    spread = f", with {jitter} jitter" if jitter not in {None, "none"} else ""
    return f"after {delay}{growth}, at most {most}{spread}"
