"""Decisions per second on one core: named policies on failures of every kind, with full traces.

A third of the failures matches the first rule, a third the last one, and a third none, so that the
inline policy decides. Every decision is made anew, without a cache.

    python -m benchmarks.decide [--quick]
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import cycle, islice
from random import Random
from typing import Any

from retry.engine.decide import Chain, Decision, Rulebook, decide
from retry.evidence.ended import Ended
from retry.evidence.termination import ContainerFacts, Termination
from retry.policies.categories import FailureCategory
from retry.policies.documents import PolicyDocument
from retry.policies.inline import BackoffStrategy, InlinePolicy
from retry.policies.matching import compile_category, compile_policy

ROUNDS = 5
SECONDS_A_ROUND = 4.0
QUICK_SECONDS_A_ROUND = 1.0
FAILURES = 900
"""Number of different failures, a multiple of three."""
MESSAGE_BYTES = 4096
FIRST_CODE, LAST_CODE = 201, 202
NOW = datetime(2030, 1, 1, tzinfo=UTC)
INLINE = InlinePolicy(max_retries=5, retry_delay=10, backoff=BackoffStrategy.EXPONENTIAL)


@dataclass(frozen=True)
class Load:
    """The failures, and the policies and categories that decide on them."""

    name: str
    rulebook: Rulebook
    failures: Sequence[tuple[Termination, Chain]]


def main() -> None:
    """Print the table, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter rounds")
    seconds = QUICK_SECONDS_A_ROUND if parser.parse_args().quick else SECONDS_A_ROUND
    random = Random(1)
    loads = {
        "decisions_per_second": _load("3 policies of 10 rules", random, 3, 10, _mixed_rule),
        "large_per_second": _load("16 policies of 100 rules", random, 16, 100, _mixed_rule),
        "regex_per_second": _load(
            "3 policies of 10 regex rules, 4 KiB messages", random, 3, 10, _regex_rule
        ),
    }
    rates = {}
    for key, load in loads.items():
        _check(load)
        rates[key] = round(_rate(load, seconds))
        print(f"{load.name:46} {rates[key]:8,} decisions/s  {1e6 / rates[key]:7.1f} us each")
    print(json.dumps(rates))


def _load(
    name: str,
    random: Random,
    policies: int,
    rules: int,
    rule: Callable[[int], dict[str, Any]],
) -> Load:
    size = MESSAGE_BYTES if rule is _regex_rule else 200
    documents = [_document(at, policies, rules, rule) for at in range(policies)]
    categories = [
        {"name": f"category-{at}", "matchers": [{"onTerminationMessage": {"pattern": pattern}}]}
        for at, pattern in enumerate(("CUDA error [0-9]+", "NCCL.*timeout", "ibv_[a-z]+ failed"))
    ]
    named = (compile_policy(PolicyDocument.model_validate(each), revision=1) for each in documents)
    rulebook = Rulebook(
        INLINE,
        tuple(named),
        tuple(compile_category(FailureCategory.model_validate(each)) for each in categories),
    )
    return Load(
        name,
        rulebook,
        [_failure(random, at, size) for at in range(FAILURES)],
    )


def _document(
    at: int, policies: int, rules: int, rule: Callable[[int], dict[str, Any]]
) -> dict[str, Any]:
    made = [{"action": "Retry", **rule(at * rules + each)} for each in range(rules)]
    if at == 0:
        made[0] = {"action": "Retry", "onExitCodes": _codes(FIRST_CODE)}
    if at == policies - 1:
        made[-1] = {"action": "Retry", "onExitCodes": _codes(LAST_CODE), "retryLimit": 7}
    return {
        "apiVersion": "reprise/v1",
        "kind": "RetryPolicy",
        "metadata": {"name": f"policy-{at}"},
        "spec": {"retryLimit": 5, "backoff": {"initialDelay": "10s"}, "rules": made},
    }


def _codes(*codes: int) -> dict[str, Any]:
    return {"operator": "In", "values": list(codes)}


def _mixed_rule(number: int) -> dict[str, Any]:
    """Return a rule like operators write them, which no failure of this benchmark matches."""
    kinds: list[dict[str, Any]] = [
        {"onConditions": ["Unschedulable"], "antiAffinity": {"mode": "node"}},
        {"onExitCodes": _codes(100 + number % 50, 180)},
        {"containerName": "sidecar", "onConditions": ["OOMKilled"]},
        {"onFailureCategory": [f"other-{number}"]},
        {"onCauses": ["image_pull_failure"], "retryLimit": 3},
        {"onExitCodes": _codes(151 + number % 20), "onConditions": ["Evicted"]},
        {"onTerminationMessage": {"pattern": f"TRANSIENT-{number}[^0-9]"}},
        {"containerName": "main", "onExitCodes": _codes(137, 143)},
        {"onConditions": ["DeadlineExceeded"], "onExitCodes": _codes(143)},
        {"onCauses": ["start_failure", "scheduler_timeout"]},
    ]
    return {"name": f"rule-{number}", **kinds[number % len(kinds)]}


def _regex_rule(number: int) -> dict[str, Any]:
    pattern = f"(?i)(transient|temporary) (error|failure) {number}:.*retry"
    return {"name": f"rule-{number}", "onTerminationMessage": {"pattern": pattern}}


def _failure(random: Random, number: int, message_size: int) -> tuple[Termination, Chain]:
    """Return a failure that matches the first rule, the last rule or none, in turn."""
    code = (FIRST_CODE, LAST_CODE, random.choice((1, 2, 3, 42, 127)))[number % 3]
    retries = random.randrange(5)
    chain = Chain(
        session_id=f"{random.getrandbits(128):032x}",
        session_type="batch",
        retry_count=retries,
        root_created_at=NOW - timedelta(seconds=random.randrange(1, 10**5)),
        counters={"inline/failure": retries},
        resources={"cpu": "2", "memory": "4Gi"},
    )
    return _termination(random, code, message_size), chain


def _termination(random: Random, code: int, message_size: int) -> Termination:
    message = "".join(random.choices("abcdefgh error \n", k=message_size))
    plain = Termination(exit_code=code, message=message, node=f"node-{random.randrange(1000)}")
    main = ContainerFacts("main", exit_code=code, reason="Error", message=message)
    side = ContainerFacts("proxy", exit_code=0, reason="Completed")
    finished = f"2030-01-01T00:00:{random.randrange(10, 60)}Z"
    return random.choice(
        (
            plain,
            replace(plain, message="", containers=(replace(main, finished_at=finished),)),
            replace(plain, message="", containers=(side, replace(main, finished_at=finished))),
            replace(plain, containers=(side, main, ContainerFacts("init", init=True, exit_code=0))),
        )
    )


def _decide(load: Load, failure: tuple[Termination, Chain]) -> Decision | None:
    termination, chain = failure
    return decide(Ended(termination), chain, load.rulebook, NOW, 0.5)


def _check(load: Load) -> None:
    """Check that the thirds are equal; otherwise the numbers would mean something else."""
    rules = [decision.rule for each in load.failures if (decision := _decide(load, each))]
    first, last = (load.rulebook.named[at].rules[at].label for at in (0, -1))
    if [rules.count(rule) for rule in (first, last, None)] != [FAILURES // 3] * 3:
        raise SystemExit(f"{load.name}: the thirds are not thirds")


def _rate(load: Load, seconds: float) -> float:
    """Return decisions per second of the best round: others only lost time to the machine."""
    return max(_round(load, seconds) for _ in range(ROUNDS))


def _round(load: Load, seconds: float) -> float:
    failures = cycle(load.failures)
    made = 0
    start = time.perf_counter()
    while (passed := time.perf_counter() - start) < seconds:
        for failure in islice(failures, 100):
            _decide(load, failure)
        made += 100
    return made / passed


if __name__ == "__main__":
    main()
