"""The facts that a rule sees of an end, naively, over plain JSON values; see `model`."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]


# Sections 2 and 4: what a rule sees.


def matches(
    rule: Json, end: Json, cause: str, category: str, signature: str = "", title: str = ""
) -> bool:
    tests = []
    if rule.get("onCauses"):
        tests.append(cause in rule["onCauses"])
    if rule.get("onFailureCategory"):
        tests.append(category in rule["onFailureCategory"])
    if rule.get("onSignatures"):
        tests.append(signature in rule["onSignatures"])
    if rule.get("onPodMessage"):
        tests.append(found(rule["onPodMessage"], end["pod_message"]))
    if rule.get("onSignatureTitle"):
        tests.append(found(rule["onSignatureTitle"], title))
    seen = considered(rule, end)
    if rule.get("onConditions"):
        known = pod_conditions(end) | ({"OOMKilled"} if oom_killed(rule, end, seen) else set())
        tests.append(any(name in known for name in rule["onConditions"]))
    if rule.get("onExitCodes"):
        tests.append(exit_code_matches(rule, end, seen))
    if rule.get("onTerminationMessage"):
        tests.append(any(found(rule["onTerminationMessage"], text) for text in texts(rule, end)))
    return bool(tests) and all(tests)


def looked_at(rule: Json, end: Json) -> list[Json]:
    init_too = rule.get("includeInitContainers", False)
    return [one for one in end["containers"] if init_too or not one["init"]]


def considered(rule: Json, end: Json) -> Json | None:
    """The container that the rule names, or else the one that failed first."""
    candidates = looked_at(rule, end)
    name = rule.get("containerName")
    if name is None:
        return first_failed(candidates)
    named = [one for one in candidates if one["name"] == name]
    return first_failed(named) or next(iter(named), None)


def first_failed(containers: list[Json]) -> Json | None:
    failed = [one for one in containers if one["exit_code"]]
    by_time = sorted(failed, key=lambda one: (float(one["finished_at"] or "inf"), one["name"]))
    return by_time[0] if by_time else None


def oom_killed(rule: Json, end: Json, seen: Json | None) -> bool:
    for one in looked_at(rule, end) if seen is None else [seen]:
        if one["reason"] == "OOMKilled" and one["exit_code"] != 0:
            return rule.get("containerName") in (None, one["name"])
    if rule.get("containerName") is not None:
        return False
    if end["reason"] == "OOMKilled" and end["exit_code"] != 0:
        return True
    return "OOMKilled" in end["conditions"]


def exit_code_matches(rule: Json, end: Json, seen: Json | None) -> bool:
    code = (seen or {}).get("exit_code")
    if not end["containers"] and rule.get("containerName") is None:
        code = end["exit_code"]
    if not code:
        return False
    listed = code in rule["onExitCodes"]["values"]
    return listed if rule["onExitCodes"]["operator"] == "In" else not listed


def texts(rule: Json, end: Json) -> list[str]:
    named = rule.get("containerName")
    if not any(one["message"] for one in end["containers"]):
        return [end["message"]] if named is None else []
    return [one["message"] for one in looked_at(rule, end) if named is None or one["name"] == named]


def found(given: Json, text: str) -> bool:
    tail = text.encode("utf-8")[-4096:].decode("utf-8", "ignore")
    return re.search(given["pattern"], tail) is not None


def session_exit_code(end: Json) -> int | None:
    first = first_failed(end["containers"])
    code: int | None = end["exit_code"] if first is None else first["exit_code"]
    return code


def category_of(end: Json, categories: list[Json], title: str) -> str:
    for category in categories:
        for matcher in category["matchers"]:
            if matches({**matcher, "includeInitContainers": True}, end, "", "", title=title):
                return str(category["name"])
    return ""


def workload_message(end: Json, categories: list[Json]) -> Json:
    silent: Json = {"retry": True, "after": 0.0, "category": ""}
    first = first_failed(end["containers"])
    text = end["message"] if first is None else first["message"] or end["message"]
    try:
        parsed = json.loads(text)
    except ValueError:
        return silent
    if not isinstance(parsed, dict) or not isinstance(parsed.get("reprise"), dict):
        return silent
    parsed = parsed["reprise"]
    if any(key not in ("retry", "after", "category") for key in parsed):
        return silent
    retry, after = parsed.get("retry", True), parsed.get("after", 0)
    category = parsed.get("category", "")
    if not isinstance(retry, bool) or not isinstance(category, str):
        return silent
    if type(after) not in (int, float) or not 0 <= after < math.inf:
        return silent
    names = [category["name"] for category in categories]
    return {"retry": retry, "after": after, "category": category if category in names else ""}


# Section 2: the table, for the words that the tests use.

ROWS: Mapping[str, list[str]] = {
    "validation_error": ["InvalidImageName"],
    "quota_exceeded": ["QuotaExceeded"],
    "preempted": ["Preempted", "Preempting"],
    "evicted": ["Evicted"],
    "agent_transient": ["NodeLost", "OutOfcpu", "UnexpectedAdmissionError"],
    "deadline_exceeded": ["DeadlineExceeded"],
    "oom_killed": [],
    "image_pull_failure": ["ErrImagePull"],
    "start_failure": ["CrashLoopBackOff", "StartError"],
    "scheduler_timeout": ["Unschedulable"],
}
CONDITIONS = {
    "preempted": "Preempted",
    "evicted": "Evicted",
    "deadline_exceeded": "DeadlineExceeded",
    "scheduler_timeout": "Unschedulable",
}


def cause_of(end: Json) -> str:
    if end["status"] == "cancelled":
        return "dependency_failed" if "DependencyFailed" in end["conditions"] else "user_cancelled"
    rows = rows_of(end)
    for cause in ROWS:
        if cause in rows:
            return cause
    if any(code for code in (end["exit_code"], *(one["exit_code"] for one in end["containers"]))):
        return "kernel_nonzero_exit"
    return "unknown"


def rows_of(end: Json) -> set[str]:
    words = [*end["conditions"], end["reason"], *(one["reason"] for one in end["containers"])]
    rows = {cause for cause, names in ROWS.items() if any(name in words for name in names)}
    if end["lease_expired"]:
        rows.add("agent_transient")
    killed = any(
        one["reason"] == "OOMKilled" and one["exit_code"] != 0 for one in end["containers"]
    )
    if killed or oom_killed({}, end, None):
        rows.add("oom_killed")
    return rows


def pod_conditions(end: Json) -> set[str]:
    return {CONDITIONS[cause] for cause in rows_of(end) if cause in CONDITIONS}
