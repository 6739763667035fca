"""The decision about a failure: one pure function, with a trace of every step."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from retry.engine.budgets import (
    FAILURE_BUDGET,
    PREEMPTION_BUDGET,
    SCHEDULER_BUDGET,
    budgets,
    counters_after,
    max_attempts,
    open_budgets,
    retries_enabled,
)
from retry.engine.case import Case, Verdict, check_budget, check_condition
from retry.engine.decision import (
    BREAKER,
    PARKED,
    SWITCH,
    Chain,
    Decision,
    Mode,
    Rulebook,
    Settings,
)
from retry.engine.next_attempt import avoided_node, due, placement, resources, wait
from retry.engine.parking import parked_for
from retry.engine.reasons import EXHAUSTED, NOT_RETRIED, REASONS
from retry.engine.rule_steps import default_action, named_rules
from retry.engine.same_failure import repeats
from retry.evidence.causes import CANCELLED_CAUSES, CauseClass, cause_class
from retry.evidence.ended import Ended
from retry.evidence.ending_facts import TRACED_CHARACTERS
from retry.evidence.workload_message import NO_MESSAGE, WorkloadMessage
from retry.policies.backoff import Backoff
from retry.policies.limits import most_of
from retry.policies.matching import CompiledCategory, Facts, category_of
from retry.policies.merge import bounded

__all__ = [
    "Chain",
    "Decision",
    "Mode",
    "Rulebook",
    "Settings",
    "budgets",
    "counters_after",
    "decide",
    "max_attempts",
    "open_budgets",
]


def decide(
    ended: Ended, chain: Chain, rulebook: Rulebook, now: datetime, random: float
) -> Decision | None:
    """Return the decision about an ended session; None if it succeeded. Never raises.

    `random` is uniform in [0, 1).
    """
    if ended.termination.status == "terminated":
        return None
    case = _open_case(ended, chain, rulebook, now)
    if _gave_way(case):
        return _came_back(case, now)
    verdict = _first_verdict(case)
    if verdict.backoff is None:
        return _refused(case, verdict)
    _note_bounds(case)
    delay = wait(case, verdict, verdict.backoff, random)
    due_at = due(case, delay, now)
    if late := _chain_deadline(case, due_at):
        return _refused(case, late._replace(rule=verdict.rule))
    if spent := _shared_budget(case):
        return _refused(case, spent._replace(rule=verdict.rule))
    return _granted(case, verdict, delay, due_at)


_Step = Callable[[Case], Verdict | None]


def _open_case(ended: Ended, chain: Chain, rulebook: Rulebook, now: datetime) -> Case:
    effective, bound_steps = bounded(rulebook.policy, rulebook.bounds)
    facts = Facts(ended, signature=chain.signature, title=chain.title)
    workload_message = NO_MESSAGE
    if ended.termination.status != "cancelled":
        workload_message = ended.wishes
        facts.category = _category(facts, workload_message, rulebook.categories)
    case = Case(
        chain=chain,
        policy=effective,
        bounds=rulebook.bounds,
        named=rulebook.named,
        settings=rulebook.settings,
        facts=facts,
        kind=cause_class(ended.cause),
        exit_code=ended.exit_code,
        workload_message=workload_message,
        bound_steps=bound_steps,
        trace=[],
        now=now,
    )
    case.note(
        "classify",
        ended.cause.value,
        given=ended.given is not None,
        **ended.facts,
        **{"class": case.kind.value, "failure_category": facts.category},
    )
    return case


def _category(
    facts: Facts, workload_message: WorkloadMessage, categories: Sequence[CompiledCategory]
) -> str:
    """Return the failure category; the workload's own comes first if it is defined."""
    if workload_message.category and any(
        category.name == workload_message.category for category in categories
    ):
        return workload_message.category
    return category_of(facts, categories)


def _first_verdict(case: Case) -> Verdict:
    for step in _STEPS:
        if verdict := step(case):
            return verdict
    return _no_policy(case)


def _session_type(case: Case) -> Verdict | None:
    batch = case.chain.session_type == "batch"
    return check_condition(
        case, "session_type", "not_batch", batch, session_type=case.chain.session_type
    )


def _never_cause(case: Case) -> Verdict | None:
    allowed = case.kind is not CauseClass.NEVER
    return check_condition(case, "never_cause", "never_retried", allowed, cause=case.cause.value)


def _switch(case: Case) -> Verdict | None:
    mode = case.settings.mode
    return check_condition(
        case, "switch", "retries_disabled", mode is not Mode.OFF, mode=mode.value
    )


def _workload(case: Case) -> Verdict | None:
    workload_message = case.workload_message
    if workload_message is NO_MESSAGE:
        return None
    wishes = {
        "after": workload_message.after,
        "category": workload_message.category[:TRACED_CHARACTERS],
        "defined": workload_message.category == case.facts.category,
    }
    return check_condition(case, "workload", "workload_said_no", workload_message.retry, **wishes)


def _same_failure(case: Case) -> Verdict | None:
    return repeats(case, case.policy.stop_after_same)


def _global_limit(case: Case) -> Verdict | None:
    return check_budget(
        case,
        "global_limit",
        "global_limit",
        case.chain.retry_count,
        case.settings.global_max_retries,
    )


def _inline_policy(case: Case) -> Verdict | None:
    if not _has_inline_budget(case):
        return None
    return _eligible(case) or _exit_code(case) or _inline_payment(case)


def _no_policy(case: Case) -> Verdict:
    case.note("no_policy", "no_policy")
    return Verdict("no_policy")


_STEPS: tuple[_Step, ...] = (
    _session_type,
    _never_cause,
    _switch,
    _workload,
    _same_failure,
    _global_limit,
    named_rules,
    _inline_policy,
    default_action,
)


def _note_bounds(case: Case) -> None:
    """Note once what the bounds changed in the inline policy, before it is used."""
    case.trace.extend(case.bound_steps)
    case.bound_steps.clear()


def _has_inline_budget(case: Case) -> bool:
    _note_bounds(case)
    name, limit = _inline_budget(case)
    found = limit != 0
    case.note(
        "inline_budget",
        "pass" if found else "none",
        **{"class": case.kind.value, "budget": name, "limit": limit},
    )
    return found


def _eligible(case: Case) -> Verdict | None:
    eligible = case.cause in case.policy.eligible_causes
    return check_condition(case, "eligible", "cause_not_eligible", eligible, cause=case.cause.value)


def _exit_code(case: Case) -> Verdict | None:
    code = case.exit_code
    if case.kind is not CauseClass.FAILURE or not code:
        return None
    allowed = case.policy.retry_on_exit_codes
    denied = code in case.policy.no_retry_on_exit_codes
    return check_condition(
        case,
        "exit_code",
        "exit_code_excluded",
        not denied and (not allowed or code in allowed),
        exit_code=code,
        denied=denied,
    )


def _inline_payment(case: Case) -> Verdict:
    name, limit = _inline_budget(case)
    window, resets = case.policy.retry_window, case.policy.reset_on_progress
    used = case.used(name, window, resets=resets)
    step, refusal = _BUDGET_STEPS[name]
    if refused := check_budget(
        case, step, refusal, used, limit, window=window, resets=resets, budget=name
    ):
        return refused
    return Verdict("inline_retry", name, used, limit, backoff=Backoff.from_policy(case.policy))


_BUDGET_STEPS = {
    FAILURE_BUDGET: ("failure_budget", "max_retries"),
    PREEMPTION_BUDGET: ("preemption_budget", "preemption_budget"),
}


def _inline_budget(case: Case) -> tuple[str, int | None]:
    """Return the name and the limit of the budget that this cause's class spends.

    A limit of None is none of its own.
    """
    preemptions = case.policy.max_preemption_retries
    if case.kind is CauseClass.PLATFORM and preemptions is not None:
        return PREEMPTION_BUDGET, most_of(preemptions)
    return FAILURE_BUDGET, most_of(case.policy.max_retries)


def _chain_deadline(case: Case, due_at: datetime) -> Verdict | None:
    limit = case.policy.max_chain_duration
    if limit is None:
        return None
    # Compared as seconds, since a limit may lie beyond the last representable date.
    age = (due_at - case.chain.root_created_at).total_seconds()
    return check_condition(
        case, "chain_deadline", "chain_deadline", age <= limit, age=age, limit=limit
    )


def _shared_budget(case: Case) -> Verdict | None:
    platform = case.kind is CauseClass.PLATFORM
    over = next((each for each in case.settings.spent if each.platform or not platform), None)
    if over is None:
        return None
    return check_condition(
        case, "shared_budget", "shared_budget_spent", passed=False, scope=over.level
    )


def _gave_way(case: Case) -> bool:
    """Return whether it made room for another session, and did not end in another way first."""
    return case.chain.gave_way and case.kind is CauseClass.PLATFORM


class _Fate(NamedTuple):
    """What becomes of a chain. Each field is that of the decision."""

    action: str
    state: str
    retry_state: str
    held_for: str = ""
    held_key: str = ""
    delay: float | None = None
    due_at: datetime | None = None
    avoid_node: str = ""
    resources: Mapping[str, Any] | None = None
    placement: Mapping[str, Any] | None = None


def _came_back(case: Case, now: datetime) -> Decision:
    """Return the retry that no policy refuses; the switch holds it until retries are on again."""
    used = case.chain.counters.get(SCHEDULER_BUDGET, 0)
    mode = case.settings.mode
    case.note("gave_way", "pass", used=used, mode=mode.value)
    verdict = Verdict("gave_way", SCHEDULER_BUDGET, used)
    hold = "" if mode is Mode.ON else SWITCH, ""
    return _retried(case, verdict, hold, 0.0, due(case, 0.0, now))


def _granted(case: Case, verdict: Verdict, delay: float, due_at: datetime) -> Decision:
    return _retried(case, verdict, _hold(case), delay, due_at)


def _hold(case: Case) -> tuple[str, str]:
    """Return what holds a granted retry and its key; "" for nothing."""
    if case.settings.mode is Mode.PAUSED:
        return SWITCH, ""
    if case.chain.breaker and case.kind is CauseClass.FAILURE:
        case.note("breaker", "held", key=case.chain.breaker, signature=case.chain.signature)
        return BREAKER, case.chain.breaker
    return "", ""


def _retried(
    case: Case, verdict: Verdict, hold: tuple[str, str], delay: float, due_at: datetime
) -> Decision:
    held_for, held_key = hold
    state = "held" if held_for else "scheduled"
    fate = _Fate(
        "retry",
        state,
        retry_state=state,
        held_for=held_for,
        held_key=held_key,
        delay=delay,
        due_at=due_at,
        avoid_node=avoided_node(case, verdict),
        resources=resources(case, verdict),
        placement=placement(case, verdict),
    )
    return _closed(case, verdict, fate)


def _refused(case: Case, verdict: Verdict) -> Decision:
    retry_state = REASONS[verdict.reason].state
    if case.cause in CANCELLED_CAUSES:
        retry_state = "cancelled"
    elif retry_state == EXHAUSTED and not retries_enabled(case.policy, case.named):
        retry_state = NOT_RETRIED
    fate = _Fate("fail", "final", retry_state)
    if retry_state == EXHAUSTED and (seconds := parked_for(case, verdict)) is not None:
        case.note("park", PARKED, seconds=seconds)
        until = case.now + timedelta(seconds=seconds)
        fate = _Fate("fail", "held", PARKED, held_for=PARKED, due_at=until)
    return _closed(case, verdict, fate)


def _closed(case: Case, verdict: Verdict, fate: _Fate) -> Decision:
    """Return the decision, which is the last step of its trace."""
    words = {"reason": verdict.reason, "state": fate.state, "retry_state": fate.retry_state}
    case.note("decision", fate.action, **words)
    return Decision(
        action=fate.action,
        reason=verdict.reason,
        cause=case.cause,
        failure_category=case.facts.category,
        rule=verdict.rule.label if verdict.rule else None,
        paid_by=verdict.paid_by,
        used=verdict.used,
        limit=verdict.limit,
        delay=fate.delay,
        due_at=fate.due_at,
        avoid_node=fate.avoid_node,
        resources=fate.resources,
        state=fate.state,
        held_for=fate.held_for,
        retry_state=fate.retry_state,
        revisions={policy.name: policy.revision for policy in case.named},
        trace=case.trace,
        held_key=fate.held_key,
        placement=fate.placement,
    )
