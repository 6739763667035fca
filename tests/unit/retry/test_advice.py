"""Advice about retries: what one retry fewer or more would change, and rules that help nobody."""

from retry.advice import LEAST_CHAINS, advise, sentences
from retry.engine.decision import Rulebook
from retry.evidence.termination import Termination
from retry.policies.documents import PolicyDocument
from retry.policies.inline import InlinePolicy, WhenExhausted
from retry.policies.limits import Limit
from retry.policies.matching import compile_policy
from retry.simulate import Ending, Past

FAILED = Termination(exit_code=7)
SUCCESS = Termination(status="terminated", exit_code=0)
RULE = {"name": "flaky", "action": "Retry", "onExitCodes": {"operator": "In", "values": [7]}}
HEAD = {"apiVersion": "reprise/v1", "kind": "RetryPolicy", "metadata": {"name": "team"}}
NAMED = compile_policy(
    PolicyDocument.model_validate({**HEAD, "spec": {"rules": [RULE], "retryLimit": 1}}),
    revision=None,
)


def past(*ends: Termination, ran: float = 10.0) -> Past:
    """A batch chain with these ends, each after a run of some seconds."""
    endings = [Ending(end, f"s-{at}", lasted=ran, ran=ran) for at, end in enumerate(ends)]
    return Past("batch", {}, endings)


def inline(max_retries: Limit) -> Rulebook:
    return Rulebook(InlinePolicy(max_retries=max_retries))


def test_one_retry_fewer_loses_the_chains_that_needed_the_last_one() -> None:
    found = advise(
        [
            (past(SUCCESS), inline(2)),
            (past(FAILED, SUCCESS), inline(2)),
            (past(FAILED, FAILED, SUCCESS), inline(2)),
            (past(FAILED, FAILED, FAILED), inline(2)),
            (past(FAILED), inline(0)),
        ]
    )
    assert (found.chains, found.recovered, found.lost) == (5, 2, 1)
    # The third attempts of two chains.
    assert found.saved == 20
    # The chain without retries is not retried, but with one more it is.
    assert found.tried == 1
    (said,) = sentences(found.facts())
    for text in ("5 chains", "1 of 2 recovered", "20 s of run time", "1 chain that gave up"):
        assert text in said


def test_chains_that_were_parked_had_used_up_their_retries() -> None:
    book = Rulebook(InlinePolicy(max_retries=1, on_exhausted=WhenExhausted.PARK))
    found = advise([(past(FAILED, FAILED), book), (past(FAILED, SUCCESS), book)])
    assert (found.recovered, found.tried) == (1, 1)


def test_of_chains_without_a_limit_one_more_or_fewer_says_nothing() -> None:
    found = advise(
        [(past(FAILED, SUCCESS), inline("unlimited")), (past(FAILED), inline("unlimited"))]
    )
    assert (found.recovered, found.lost, found.saved, found.tried) == (1, 0, 0, 0)


def test_a_rule_that_never_helped_is_named() -> None:
    book = Rulebook(InlinePolicy(), named=(NAMED,))
    lost = [(past(FAILED, FAILED), book)] * LEAST_CHAINS
    assert advise(lost[1:]).idle_rules == []
    found = advise(lost)
    assert found.idle_rules == ["team/flaky"]
    assert sentences(found.facts())[-1].endswith(f"team/flaky ({LEAST_CHAINS} chains).")
    assert advise([*lost, (past(FAILED, SUCCESS), book)]).idle_rules == []


def test_where_nothing_was_retried_nothing_is_said() -> None:
    assert sentences(advise([(past(SUCCESS), inline(2))]).facts()) == []
