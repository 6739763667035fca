"""The decision once more, naively, over plain JSON values: what the engine is compared with.

It follows the text of the rules from the top, keeps nothing between calls and is slow. It shares no
code with `retry/`.
"""

import hashlib
import json
import math
import re
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

from base.podspec.quantity import parse
from tests.unit.retry.model_facts import (
    category_of,
    cause_of,
    matches,
    session_exit_code,
    workload_message,
)

Json = dict[str, Any]

DAY = 86_400.0
NEVER = ["dependency_failed", "user_cancelled", "validation_error", "quota_exceeded"]
PLATFORM = ["preempted", "evicted", "agent_transient"]
RETRYING = ["rule_retry", "inline_retry", "default_retry", "gave_way"]
EXHAUSTED = [
    "repeating_failure",
    "global_limit",
    "rule_limit",
    "preemption_budget",
    "max_retries",
    "default_limit",
    "chain_deadline",
]
MATCHERS = [
    "onConditions",
    "onExitCodes",
    "onTerminationMessage",
    "onSignatures",
    "onPodMessage",
    "onSignatureTitle",
    "onFailureCategory",
    "onCauses",
]
SHIPPED: Json = {
    "max_retries": 0,
    "max_preemption_retries": None,
    "retry_window": None,
    "reset_on_progress": False,
    "stop_after_same": None,
    "retry_delay": 60.0,
    "backoff": "fixed",
    "backoff_multiplier": 2.0,
    "max_retry_delay": 3600.0,
    "jitter": "deterministic",
    "jitter_ratio": 0.25,
    "eligible_causes": [
        "agent_transient",
        "deadline_exceeded",
        "evicted",
        "image_pull_failure",
        "kernel_nonzero_exit",
        "limit_exceeded",
        "oom_killed",
        "preempted",
        "scheduler_timeout",
        "start_failure",
        "unknown",
    ],
    "retry_on_exit_codes": [],
    "no_retry_on_exit_codes": [],
    "max_chain_duration": None,
    "on_exhausted": "end",
    "park_for": 86_400.0,
}


def decide(
    end: Json, chain: Json, world: Json, now: datetime, random: float, cause: str | None = None
) -> Json | None:
    """Decide about one end.

    `world` has `layers` (inline policies, farthest first), `bounds` (likewise), `policies` and
    `categories` (documents), `mode` and `global_max_retries`; `chain` has `id`, `type`,
    `retry_count`, `created`, `counters`, `resources`, `ceiling`, `preempted_at`, `confirmed`,
    `grace`, `signature` and `title` (of the end), `failures`, `paid` and `gave_way`.
    """
    if end["status"] == "terminated":
        return None
    inline = inline_policy(world)
    message = workload_message(end, world["categories"])
    cause = cause or cause_of(end)
    category = message["category"] or category_of(end, world["categories"], chain["title"])
    if end["status"] == "cancelled":
        category = ""
    chain = chain | {"now": now}
    if chain["gave_way"] and cause in PLATFORM:
        used = chain["counters"].get("scheduler/preemption", 0)
        verdict = {"reason": "gave_way", "payer": "scheduler/preemption", "used": used}
        soon = due_at(chain, cause, 0.0, now)
        return decision_of(end, chain, world, inline, verdict, cause, category, 0.0, soon)
    verdict = steps(end, chain, world, inline, message, cause, category)
    delay = due = None
    if verdict["reason"] in RETRYING:
        delay = delay_of(verdict, chain, world, inline, message, random)
        due = due_at(chain, cause, delay, now)
        limit = inline["max_chain_duration"]
        if limit is not None and (due - chain["created"]).total_seconds() > limit:
            verdict = {"reason": "chain_deadline", "rule": verdict["rule"]}
    return decision_of(end, chain, world, inline, verdict, cause, category, delay, due)


def decision_of(
    end: Json,
    chain: Json,
    world: Json,
    inline: Json,
    verdict: Json,
    cause: str,
    category: str,
    delay: float | None,
    due: datetime | None,
) -> Json:
    reason = verdict["reason"]
    again = reason in RETRYING
    state = "scheduled" if world["mode"] == "on" else "held"
    if not again:
        state = "not_retried"
        if reason in EXHAUSTED and somebody_enabled(world, inline):
            state = "exhausted" if parked_for(world, inline, verdict) is None else "parked"
        if cause in {"dependency_failed", "user_cancelled"}:
            state = "cancelled"
    mode = nearest(verdict, "antiAffinity") or {"mode": "none"}
    growth = (verdict.get("matched") or {}).get("resources") if again else None
    return {
        "action": "retry" if again else "fail",
        "reason": reason,
        "cause": cause,
        "failure_category": category,
        "rule": verdict.get("rule"),
        "paid_by": verdict["payer"] if again else None,
        "used": verdict.get("used"),
        "limit": verdict.get("limit"),
        "delay": delay if again else None,
        "due_at": due if again else until(world, inline, verdict, chain, state),
        "avoid_node": end["node"] if again and mode["mode"] == "node" else "",
        "resources": grown(chain, growth) if again else None,
        "placement": moved(chain, verdict) if again else None,
        "retry_state": state,
    }


def parked_for(world: Json, inline: Json, verdict: Json) -> float | None:
    specs = {each["metadata"]["name"]: each["spec"] for each in world["policies"]}
    says = {name: spec for name, spec in specs.items() if spec.get("onExhausted")}
    of_rule = (verdict.get("rule") or "").split("/")[0]
    spec = says.get(of_rule)
    if spec is None and inline["on_exhausted"] == "park":
        return float(inline["park_for"])
    if spec is None and says:
        spec = next(iter(says.values()))
    if spec is None or spec["onExhausted"] == "End":
        return None
    given = spec.get("parkFor")
    return float(seconds(given) if given else inline["park_for"])


def until(world: Json, inline: Json, verdict: Json, chain: Json, state: str) -> datetime | None:
    if state != "parked":
        return None
    now: datetime = chain["now"]
    return now + timedelta(seconds=parked_for(world, inline, verdict) or 0)


# Section 5, step by step.


def steps(  # noqa: PLR0911  # one for each step
    end: Json, chain: Json, world: Json, inline: Json, message: Json, cause: str, category: str
) -> Json:
    most = world["global_max_retries"]
    if chain["type"] != "batch":
        return {"reason": "not_batch"}
    if cause in NEVER:
        return {"reason": "never_retried"}
    if world["mode"] == "off":
        return {"reason": "retries_disabled"}
    if message["retry"] is False:
        return {"reason": "workload_said_no"}
    if repeats(chain, cause, inline["stop_after_same"]):
        return {"reason": "repeating_failure"}
    if most is not None and chain["retry_count"] >= most:
        return {"reason": "global_limit", "used": chain["retry_count"], "limit": most}
    for policy in world["policies"]:
        for rule in policy["spec"].get("rules") or []:
            if matches(rule, end, cause, category, chain["signature"]):
                return by_rule(policy, rule, chain, most, cause)
    if inline_budget(inline, cause):
        return by_inline(inline, end, chain, cause)
    for policy in world["policies"]:
        if policy["spec"].get("defaultAction"):
            return by_default(policy, chain, most)
    return {"reason": "no_policy"}


def repeats(chain: Json, cause: str, most: int | None) -> bool:
    if most is None or cause in PLATFORM:
        return False
    if chain["advanced"]:
        return False
    alike = [chain["signature"], *chain["failures"]][:most]
    return len(alike) == most and set(alike) == {chain["signature"]} != {""}


def by_rule(policy: Json, rule: Json, chain: Json, most: int | None, cause: str) -> Json:
    name = policy["metadata"]["name"] + "/" + known_by(rule)
    if rule["action"] == "Fail":
        return {"reason": "rule_fail", "rule": name}
    if repeats(chain, cause, rule.get("stopAfterSame")):
        return {"reason": "repeating_failure", "rule": name}
    window = rule.get("retryWindow")
    limit = rule.get("retryLimit")
    if limit is None:
        limit = policy["spec"].get("retryLimit")
    if limit is None:
        limit = most
    return {"policy": policy, "matched": rule, "rule": name} | paid(
        chain,
        name,
        limit,
        "rule_retry",
        "rule_limit",
        seconds(window) if window else None,
        bool(rule.get("resetOnProgress")),
    )


def by_default(policy: Json, chain: Json, most: int | None) -> Json:
    name = policy["metadata"]["name"] + "/default"
    if policy["spec"]["defaultAction"] == "Fail":
        return {"reason": "default_fail", "rule": name}
    limit = policy["spec"].get("retryLimit")
    if limit is None:
        limit = most
    return {"policy": policy, "rule": name} | paid(
        chain, name, limit, "default_retry", "default_limit"
    )


def by_inline(inline: Json, end: Json, chain: Json, cause: str) -> Json:
    if cause not in inline["eligible_causes"]:
        return {"reason": "cause_not_eligible"}
    code = session_exit_code(end)
    if cause not in PLATFORM and code:
        allowed, refused = inline["retry_on_exit_codes"], inline["no_retry_on_exit_codes"]
        if code in refused or (allowed and code not in allowed):
            return {"reason": "exit_code_excluded"}
    own = inline["max_preemption_retries"]
    if cause in PLATFORM and own is not None:
        return {"rule": None} | paid(
            chain,
            "inline/preemption",
            own,
            "inline_retry",
            "preemption_budget",
            inline["retry_window"],
            inline["reset_on_progress"],
        )
    return {"rule": None} | paid(
        chain,
        "inline/failure",
        inline["max_retries"],
        "inline_retry",
        "max_retries",
        inline["retry_window"],
        inline["reset_on_progress"],
    )


def paid(
    chain: Json,
    payer: str,
    limit: int | str | None,
    granted: str,
    refused: str,
    window: float | None = None,
    resets: bool = False,
) -> Json:
    counted = chain["paid"]
    if resets:
        counted = counted[chain["advanced_at"] :]
    ages = [(chain["now"] - at).total_seconds() for by, at in counted if by == payer]
    used = len([age for age in ages if window is None or age < window])
    if isinstance(limit, str):
        limit = None
    reason = refused if limit is not None and used >= limit else granted
    return {"reason": reason, "payer": payer, "used": used, "limit": limit}


def inline_budget(inline: Json, cause: str) -> bool:
    own = inline["max_preemption_retries"]
    if cause in PLATFORM and own is not None:
        return bool(own != 0)
    return bool(inline["max_retries"] != 0)


def somebody_enabled(world: Json, inline: Json) -> bool:
    if inline["max_retries"] != 0 or inline["max_preemption_retries"] not in {None, 0}:
        return True
    for policy in world["policies"]:
        if policy["spec"].get("defaultAction") == "Retry":
            return True
        for rule in policy["spec"].get("rules") or []:
            if rule["action"] == "Retry":
                return True
    return False


def known_by(rule: Json) -> str:
    if rule.get("name"):
        return str(rule["name"])
    matchers = {key: rule[key] for key in [*MATCHERS, "containerName"] if rule.get(key) is not None}
    canonical = json.dumps(matchers, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:8]


# Section 3: the inline policy out of its layers, held to the bounds.


def inline_policy(world: Json) -> Json:
    inline = dict(SHIPPED)
    for layer in world["layers"]:
        inline.update(layer)
    for bounds in world["bounds"]:
        for name, value in bounds.items():
            if value is None:
                continue
            if name == "min_retry_delay":
                inline["retry_delay"] = max(inline["retry_delay"], value)
            elif inline[name] == "unlimited":
                inline[name] = value
            elif inline[name] is not None:
                inline[name] = min(inline[name], value)
            elif name == "max_chain_duration":
                inline[name] = value
    return inline


# Section 6: when.


def delay_of(
    verdict: Json, chain: Json, world: Json, inline: Json, message: Json, random: float
) -> float:
    backoff = nearest(verdict, "backoff")
    if backoff is None:
        top, first = inline["max_retry_delay"], inline["retry_delay"]
        factor = inline["backoff_multiplier"] if inline["backoff"] == "exponential" else 1
        jitter, ratio = inline["jitter"], inline["jitter_ratio"]
    else:
        top, first = (
            seconds(backoff.get("maxDelay", "10m")),
            seconds(backoff.get("initialDelay", "0s")),
        )
        factor = backoff.get("multiplier", 2.0)
        asked = backoff.get("jitter") or backoff.get("jitterRatio") is not None
        jitter = backoff.get("jitter", "deterministic") if asked else "none"
        ratio = backoff.get("jitterRatio", 0.25)
    cap = min(DAY if top is None else top, DAY)
    try:
        power = float(factor) ** verdict["used"]
        base = min(first * power, cap)
    except OverflowError:
        base = cap
    if first == 0:
        base = 0.0
    f = {"none": 0.0, "random": random, "deterministic": fraction(chain)}[jitter]
    delay = min(base + base * ratio * f, cap)
    delay = max(delay, min(message["after"], cap))
    least = max([bounds.get("min_retry_delay") or 0.0 for bounds in world["bounds"]], default=0.0)
    return float(max(delay, min(least, DAY)))


def fraction(chain: Json) -> float:
    text = f"{chain['id']}:{chain['retry_count']}"
    return int(hashlib.sha1(text.encode()).hexdigest()[:16], 16) / 2**64


def due_at(chain: Json, cause: str, delay: float, now: datetime) -> datetime:
    if cause != "preempted" or chain["preempted_at"] is None:
        return now + timedelta(seconds=delay)
    wait = delay if chain["confirmed"] else max(delay, chain["grace"])
    at: datetime = chain["preempted_at"] + timedelta(seconds=wait)
    return max(now, at)


def nearest(verdict: Json, part: str) -> Json | None:
    """Return the value of the rule, or else of its policy; the inline policy apart."""
    for document in (verdict.get("matched") or {}, (verdict.get("policy") or {}).get("spec") or {}):
        if document.get(part) is not None:
            return dict(document[part])
    return None


def moved(chain: Json, verdict: Json) -> Json | None:
    """Where the next attempt runs, if its rule has paid for enough retries."""
    place = dict((verdict.get("matched") or {}).get("placement") or {})
    if not place:
        return None
    paid = chain["counters"].get(verdict["rule"], 0)
    return place if paid >= place.pop("after", 0) else None


def grown(chain: Json, growth: Json | None) -> Json:
    """The resources with every amount of memory as a number of bytes."""
    resources: Json = json.loads(json.dumps(chain["resources"]))
    for group in (resources, resources.get("requests"), resources.get("limits")):
        if group and "memory" in group:
            was = int(parse(group["memory"]))
            group["memory"] = was
            if growth:
                limits = [int(parse(growth["memory"]["max"]))] if "max" in growth["memory"] else []
                limits += [] if chain["ceiling"] is None else [chain["ceiling"]]
                wanted = math.ceil(was * Fraction(str(growth["memory"]["factor"])))
                group["memory"] = max(was, min([wanted, *limits]))
    return resources


UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}


def seconds(text: str) -> float:
    parts = re.findall(r"([0-9.]+)(ns|us|ms|s|m|h)", text)
    return float(sum(float(number) * UNITS[unit] for number, unit in parts))
