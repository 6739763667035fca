"""Values with defaults, so that a test names only what it is about."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from retry.engine.decide import Chain, Decision, Rulebook, Settings, decide
from retry.evidence.causes import RetryCause
from retry.evidence.ended import Ended
from retry.evidence.termination import ContainerFacts, Termination
from retry.policies.inline import InlinePolicy
from retry.policies.matching import CompiledCategory, NamedPolicy
from retry.policies.merge import NO_BOUNDS, MergedBounds

SESSION_ID = "11111111-2222-4333-8444-555555555555"
ROOT_CREATED_AT = datetime(2030, 1, 1, tzinfo=UTC)
NOW = ROOT_CREATED_AT + timedelta(minutes=10)


def a_policy(**fields: Any) -> InlinePolicy:
    return InlinePolicy(**fields)


def a_chain(**fields: Any) -> Chain:
    """A chain whose retries were all paid by the failure budget, unless told otherwise."""
    retry_count = fields.setdefault("retry_count", 0)
    fields.setdefault("counters", {"inline/failure": retry_count} if retry_count else {})
    fields.setdefault("session_id", SESSION_ID)
    fields.setdefault("session_type", "batch")
    fields.setdefault("root_created_at", ROOT_CREATED_AT)
    return Chain(**fields)


def exited(code: int, **fields: Any) -> Termination:
    return Termination(exit_code=code, **fields)


def a_container(name: str = "main", exit_code: int | None = None, **fields: Any) -> ContainerFacts:
    return ContainerFacts(name=name, exit_code=exit_code, **fields)


PREEMPTED = Termination(conditions=("Preempted",))


def decided(
    termination: Termination | None = None,
    *,
    chain: Chain | None = None,
    bounds: MergedBounds = NO_BOUNDS,
    settings: Settings | None = None,
    now: datetime = NOW,
    random: float = 0.5,
    cause: RetryCause | None = None,
    signature: str = "",
    title: str = "",
    named: Sequence[NamedPolicy] = (),
    categories: Sequence[CompiledCategory] = (),
    **policy: Any,
) -> Decision:
    """Decide about a session that did not succeed; other keywords are the policy's fields."""
    decision = decide(
        Ended(termination or exited(1), cause),
        chain or a_chain(signature=signature, title=title),
        Rulebook(
            a_policy(**policy), tuple(named), tuple(categories), bounds, settings or Settings()
        ),
        now,
        random,
    )
    assert decision is not None
    return decision
