"""docs/retries.md says of every cause and every reason what it is, and its examples are right."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from retry.engine.reasons import REASONS
from retry.evidence.causes import RetryCause, cause_class
from retry.evidence.workload_message import NO_MESSAGE, workload_message_in
from retry.policies.inline import InlinePolicy
from retry.policies.shared_budget import SharedBudget
from retry.units.durations import in_words
from tests.unit.retry.build import a_chain, decided
from tests.unit.retry.named import named, on_causes
from tests.unit.retry.test_rule_steps import LADDER, RETRY_REASONS

PAGE = (Path(__file__).parents[3] / "docs" / "retries.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(\w+)` \|(.*)\|$", PAGE, re.MULTILINE)


def test_every_reason_of_the_engine_is_on_the_page() -> None:
    last = {"gave_way", "chain_deadline", "shared_budget_spent"}
    assert REASONS.keys() == {*RETRY_REASONS, *LADDER, *last}
    _, _, reasons = PAGE.partition("## Every reason")
    assert re.findall(r"^\| `(\w+)` \|", reasons, re.MULTILINE) == list(REASONS)


def test_every_cause_is_on_the_page_with_its_class() -> None:
    causes = set(RetryCause)
    documented = {name: cells.split("|")[-1].strip() for name, cells in ROWS if name in causes}
    assert documented == {cause.value: cause_class(cause).value for cause in RetryCause}
    assert list(documented) == list(RetryCause)


def test_the_policies_on_the_page_are_valid() -> None:
    bodies = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    policies = [json.loads(body)["retry_policy"] for body in bodies]
    assert [InlinePolicy.model_validate(each).max_retries for each in policies] == [3] * len(bodies)
    assert {"retry_window", "stop_after_same"} <= {name for each in policies for name in each}


def test_the_words_of_a_workload_are_understood() -> None:
    messages = re.findall(r"echo '(.*)' >", PAGE)
    assert len(messages) == 3
    assert all(workload_message_in(message) is not NO_MESSAGE for message in messages)


@pytest.mark.parametrize(
    ("row", "policy", "backoff"),
    [
        ("`retry_delay: 60`", {"retry_delay": 60}, None),
        (
            "`retry_delay: 30, backoff: exponential`",
            {"retry_delay": 30, "backoff": "exponential"},
            None,
        ),
        ("`initialDelay: 10s, maxDelay: 5m`", {}, {"initialDelay": "10s", "maxDelay": "5m"}),
    ],
)
def test_the_delays_on_the_page_are_those_of_the_engine(
    row: str, policy: dict[str, Any], backoff: dict[str, str] | None
) -> None:
    rule = on_causes("Retry", "kernel_nonzero_exit", name="r", backoff=backoff)
    delays = []
    for used in range(6):
        chain = a_chain(retry_count=used, counters={"infra/r": used})
        decision = decided(chain=chain, named=[named(rule)], jitter="none", **policy)
        delays.append(in_words(decision.delay or 0))
    assert f"| {row} | {' | '.join(delays)} |" in PAGE


def test_the_shipped_budget_on_the_page_is_the_shipped_one() -> None:
    (body,) = re.findall(r"```yaml\n(\{.*?\})\n```", PAGE)
    assert SharedBudget.model_validate(json.loads(body)) == SharedBudget()
    (sent,) = re.findall(r"-d '(\{\"retry_budget\".*?\})' ", PAGE)
    assert SharedBudget.model_validate(json.loads(sent)["retry_budget"]).burst == 20
