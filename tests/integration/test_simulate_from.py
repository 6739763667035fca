"""Another policy tried on one chain, from one of its attempts on."""

import pytest

from retry.policies.documents import PolicyDocument
from retry.policies.inline import InlinePolicy
from retry.policies.matching import compile_policy
from retry.simulate import Draft
from sessions_app.authorization import Actor
from sessions_app.models import Project, Session
from sessions_app.selectors.sessions import session_get
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.chains.parked import chain_give_up
from sessions_app.services.chains.simulate import FromHere, simulate_from
from sessions_app.services.sessions.cancel import chain_cancel
from tests import factories


@pytest.fixture
def project() -> Project:
    return factories.project("vision")


def chain(project: Project, *ends: int, **policy: object) -> list[Session]:
    """A chain whose attempts ended with these exit codes; 0 is a success."""
    made = [factories.submit(project, retry_policy=factories.policy(**policy))]
    for code in ends:
        status = "error" if code else "terminated"
        factories.settle(factories.start(made[-1]), status=status, exit_code=code)
        if retries_dispatch().dispatched:
            made.append(factories.tip(made[-1]))
    return made


def tried(session: Session, **draft: object) -> FromHere:
    whole = session_get(Actor(user=factories.user(superuser=True)), session.pk)
    return simulate_from(whole, Draft(**draft))  # type: ignore[arg-type]


def steps(found: FromHere) -> list[tuple[int, str | None]]:
    return [
        (each.number, each.decision.reason if each.decision else None) for each in found.attempts
    ]


def test_without_changes_it_decides_as_it_was_decided(project: Project) -> None:
    first, second, third = chain(project, 1, 1, 0)

    assert steps(tried(first)) == [(0, "inline_retry"), (1, "inline_retry"), (2, None)]
    assert steps(tried(third)) == [(2, None)]
    assert tried(second)[1:] == ("succeeded", "succeeded")


@pytest.mark.parametrize("end", ["exhausted", "cancelled"])
def test_a_chain_that_was_parked_ends_as_it_did(project: Project, end: str) -> None:
    first, second, third = chain(project, 1, 1, 1, max_retries=2, on_exhausted="park")
    if end == "exhausted":
        chain_give_up(third.pk, first.pk, by="ann")
    else:
        chain_cancel(first.pk, by="ann")
    for session in (first, second, third):
        assert tried(session)[1:] == (end, end)
    sooner = tried(first, policy=InlinePolicy(max_retries=1))
    assert sooner[1:] == ("parked", end)
    assert tried(first, policy=InlinePolicy(max_retries=3)).outcome == "retrying"


def test_what_was_spent_before_stays_spent(project: Project) -> None:
    _, second, _ = chain(project, 1, 1, 1, max_retries=2)
    found = tried(second, policy=InlinePolicy(max_retries=1))

    assert steps(found) == [(1, "max_retries")]
    assert found[1:] == ("exhausted", "exhausted")
    more = tried(second, policy=InlinePolicy(max_retries=5))
    assert steps(more)[-1] == (2, "inline_retry")
    assert more.outcome == "retrying"


def test_named_policies_of_the_draft_take_the_place_of_others(project: Project) -> None:
    first, *_ = chain(project, 65, 65, 0)
    document = {
        "apiVersion": "reprise/v1",
        "kind": "RetryPolicy",
        "metadata": {"name": "strict"},
        "spec": {"rules": [{"name": "bad-input", "action": "Fail",
                            "onExitCodes": {"operator": "In", "values": [65]}}]},
    }  # fmt: skip
    named = (compile_policy(PolicyDocument.model_validate(document), revision=None),)
    found = tried(first, named=named)

    assert steps(found) == [(0, "rule_fail")]
    assert found[1:] == ("not_retried", "succeeded")


def test_an_attempt_that_runs_has_nothing_to_decide(project: Project) -> None:
    session = factories.start(factories.submit(project))

    assert tried(session) == FromHere([], "retrying", "retrying")
