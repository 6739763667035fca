"""A stored decision in plain English: one sentence for each step that settled something."""

from collections.abc import Mapping, Sequence

from retry.engine.budgets import MANUAL_BUDGET
from retry.engine.decision import PARKED, SHARED_BUDGET
from retry.explain import next_attempt, rules
from retry.explain.attempts import budget_words
from retry.explain.endings import ending
from retry.explain.reasons import advice
from retry.explain.step_facts import (
    NO_LIMIT,
    Facts,
    Sentence,
    lasting,
    moment,
    number,
    passed,
    seconds,
    time_of,
    within,
)
from retry.policies.inline import FIELDS
from retry.policies.meaning import SECONDS
from retry.units.durations import in_words


def explain(decision_fields: Facts, trace: Sequence[Facts]) -> list[str]:
    """Explain a decision from its trace; `decision_fields` are the row's, by their names,
    with what the next attempt's lease tells of `suspect_nodes`.

    Steps that let the session pass get no sentence unless they changed or paid something. Unknown
    steps are skipped and missing facts are left out, so that old decisions stay readable. Never
    raises.
    """
    sentences = [_sentence(step) for step in trace if _AT not in step]
    sentences += [
        *[_park(step, decision_fields) for step in trace if step.get("step") == "park"],
        _outcome(decision_fields),
        _advice(decision_fields),
        _postponed(decision_fields),
        *[_held(step) for step in trace if _AT in step],
        _late(decision_fields),
        _by_hand(decision_fields),
        _suspects(decision_fields),
    ]
    return [sentence for sentence in sentences if sentence]


def _sentence(step: Facts) -> str:
    say = _SENTENCES.get(str(step.get("step")))
    return say(step) if say else ""


def _classify(step: Facts) -> str:
    cause = str(step.get("result", "unknown"))
    category = step.get("failure_category")
    also = f" and the failure category {category}" if category else ""
    words = str(step.get("said") or "").rstrip(". ")
    quotation = f" The cluster said: {words}." if words else ""
    return f"{ending(cause, step)}, so the cause is {cause}{also}.{quotation}"


def _session_type(step: Facts) -> str:
    kind = step.get("session_type")
    return "" if passed(step) else f"Only batch sessions are retried; this one is {kind}."


def _never_cause(step: Facts) -> str:
    return "" if passed(step) else f"The cause {step.get('cause')} is never retried."


def _switch(step: Facts) -> str:
    mode = step.get("mode")
    if mode == "paused":
        return "Retries are paused, so a granted retry is held."
    return "Retries are switched off." if mode == "off" else ""


def _made_room(step: Facts) -> str:
    held = "" if step.get("mode") in {"on", None} else " once retries are on again"
    return f"Reprise stopped it to make room for another session, so it always comes back{held}."


def _same_failure(step: Facts) -> str:
    if passed(step):
        return ""
    said = f"The last {step.get('count')} failures are the same one, {step.get('signature')}"
    whose = f"rule {step['rule']}" if step.get("rule") else "the retry policy"
    return f"{said}, and {whose} allows fewer than {step.get('limit')}."


def _global_limit(step: Facts) -> str:
    if passed(step):
        return ""
    used, limit = step.get("used"), step.get("limit")
    return f"The chain was retried {used} times and no chain may be retried more than {limit}."


def _bound(step: Facts) -> str:
    field, layer = step.get("field"), step.get("layer")
    was, now = (_bounded(str(field), step.get(name)) for name in ("was", "now"))
    return f"A bound set by {layer} changes {field} from {was} to {now}."


def _bounded(field: str, value: object) -> str:
    if value is None:
        return "no limit"
    return in_words(seconds({"": value}, "")) if field in _DURATIONS else number(value)


def _inline_budget(step: Facts) -> str:
    kind = step.get("class")
    return "" if passed(step) else f"The retry policy has no retries for {kind} causes."


def _eligible(step: Facts) -> str:
    return "" if passed(step) else f"The retry policy excludes the cause {step.get('cause')}."


def _exit_code(step: Facts) -> str:
    code = step.get("exit_code")
    if passed(step):
        return ""
    if step.get("denied"):
        return f"The retry policy excludes exit code {code}."
    return f"Exit code {code} is not among those that the retry policy retries."


def _budget(step: Facts) -> str:
    used, limit, name = step.get("used"), step.get("limit"), step.get("budget")
    usage = f"{used} of {limit} {budget_words(str(name))} were used{within(step)}"
    if limit is None:
        usage = f"{used} {budget_words(str(name))} were used{within(step)}, {NO_LIMIT}"
    return f"{usage}; this one pays from it." if passed(step) else f"{usage}, so none is left."


def _no_policy(_step: Facts) -> str:
    return "No policy asks for a retry."


def _park(step: Facts, fields: Facts) -> str:
    words = f"parked for up to {lasting(step, 'seconds')}, as its policy asks."
    if fields.get("held_for") == PARKED:
        return f"The chain is {words}"
    if fields.get("retry_state") == "exhausted":
        words += " Then somebody gave it up, or its time was over."
    return f"The chain was {words}"


def _breaker(step: Facts) -> str:
    return (
        f"Many chains fail with the signature {step.get('signature')}, so its breaker is open and "
        "a granted retry is held."
    )


def _shared_budget(step: Facts) -> str:
    if passed(step):
        return ""
    return f"The retry budget that all chains of its {step.get('scope')} share is spent."


def _outcome(fields: Facts) -> str:
    if fields.get("action") != "retry":
        # Of a retry by hand another sentence tells.
        refused = "" if _another(fields) else "The session is not retried."
        return _REFUSALS.get(str(fields.get("retry_state")), refused)
    if fields.get("state") == "held" and fields.get("held_for") == "breaker":
        return "The retry is held until the breaker of its signature closes."
    if fields.get("held_for") == SHARED_BUDGET:
        level = str(fields.get("held_key")).partition(":")[0]
        return f"The retry is held until the shared retry budget of its {level} has room."
    if fields.get("state") == "held":
        return "The retry is held until retries are switched on again."
    if fields.get("state") == "cancelled" or fields.get("paid_by") == MANUAL_BUDGET:
        return "The retry was cancelled before it came due."
    delay, due_at = seconds(fields, "delay"), fields.get("due_at")
    after = f"after {in_words(delay)}" if delay else "at once"
    return f"The session is retried {after}" + (f", at {moment(due_at)}." if due_at else ".")


def _another(fields: Facts) -> bool:
    """Return whether another attempt was made or asked for."""
    return bool(fields.get("next_session_id") or fields.get("requested_by"))


def _advice(fields: Facts) -> str:
    """Return advice about a refusal after which nobody has acted."""
    if fields.get("action") == "retry" or _another(fields):
        return ""
    return advice(str(fields.get("reason")), str(fields.get("cause")))


def _postponed(fields: Facts) -> str:
    if not fields.get("paced") or fields.get("requested_by"):
        return ""
    return "It was over the limit of retries a minute, and postponed to a later slot."


def _held(step: Facts) -> str:
    reason = _HOLDS.get(str(step.get("step")))
    return f"At {moment(step.get(_AT))} it was held: {reason(step)}." if reason else ""


def _late(fields: Facts) -> str:
    """Tell when the next attempt was made, if what held the retry made it late."""
    due_at, sent_at = (time_of(fields.get(name)) for name in ("due_at", "dispatched_at"))
    if due_at is None or sent_at is None or fields.get("dispatched_by"):
        return ""
    late = (sent_at - due_at).total_seconds()
    if late < _LATE:
        return ""
    return f"The next attempt was made at {moment(sent_at)}, {in_words(round(late))} later."


def _by_hand(fields: Facts) -> str:
    by, asked = fields.get("dispatched_by"), fields.get("requested_by")
    if asked:
        waits = "waits" if fields.get("state") == "scheduled" else "waited"
        request = f"{asked} asked for another attempt, which {waits} for a free slot"
        return f"{request}: it was over the limit of retries a minute."
    paid = ", on no budget" if fields.get("paid_by") == MANUAL_BUDGET else ""
    return f"It was retried at once by hand, by {by}{paid}." if by else ""


def _suspects(fields: Facts) -> str:
    met = fields.get("suspect_nodes")
    return next_attempt.suspects(met) if isinstance(met, Mapping) else ""


_AT = "at"
"""The time of a step that a hold has added after the decision."""
_LATE = 60.0
"""Seconds."""
_HOLDS: dict[str, Sentence] = {
    "switch": lambda _step: "retries were off or paused",
    "breaker": lambda step: f"the breaker of its signature, {step.get('signature')}, was open",
    "shared_budget": lambda step: (
        f"the retry budget that all chains of its {step.get('scope')} share was spent"
    ),
}
_REFUSALS = {
    "exhausted": "The retries of the chain are exhausted, so it ends here.",
    "parked": "The retries of the chain are exhausted. It waits until somebody retries it or gives "
    "it up, or until its time is over.",
    "cancelled": "The session was cancelled, so its chain ends here.",
}


_DURATIONS = frozenset(name for name, field in FIELDS.items() if field.meaning.unit == SECONDS)

_SENTENCES: dict[str, Sentence] = {
    "classify": _classify,
    "session_type": _session_type,
    "never_cause": _never_cause,
    "gave_way": _made_room,
    "switch": _switch,
    "workload": rules.workload,
    "same_failure": _same_failure,
    "global_limit": _global_limit,
    "policy": rules.policy,
    "rule": rules.rule,
    "bound": _bound,
    "inline_budget": _inline_budget,
    "eligible": _eligible,
    "exit_code": _exit_code,
    "failure_budget": _budget,
    "preemption_budget": _budget,
    "default_action": rules.default_action,
    "no_policy": _no_policy,
    "delay": next_attempt.delay,
    "grace": next_attempt.grace,
    "chain_deadline": next_attempt.chain_deadline,
    "shared_budget": _shared_budget,
    "breaker": _breaker,
    "avoid_node": next_attempt.avoid_node,
    "memory": next_attempt.memory,
    "placement": next_attempt.placement,
}
