"""The next attempt in plain English: its time, its place, its memory."""

from retry.explain.step_facts import (
    Facts,
    count,
    lasting,
    listed,
    moment,
    number,
    passed,
    seconds,
    texts,
)
from retry.units.durations import in_words

_HOLDERS = {
    "max": "the maximum of the rule",
    "quota": "the quota of the project",
    "node": "the largest node that could run it",
    "largest": "the largest possible amount",
}


def delay(step: Facts) -> str:
    base, cap, extra = (seconds(step, name) for name in ("base", "cap", "extra"))
    sentence = "There is no delay" if not base else f"The delay is {_formula(step)}"
    if extra:
        sentence += f", plus {in_words(extra)} of jitter"
    if base:
        cut = base == cap or base + extra > cap
        sentence += f", {'cut to' if cut else 'under'} the cap of {in_words(cap)}"
    source = step.get("source")
    if isinstance(source, str) and source != "inline":
        sentence += f", by the backoff of {'rule' if '/' in source else 'policy'} {source}"
    return f"{sentence}{_raised(step, min(base + extra, cap))}."


def _formula(step: Facts) -> str:
    first = lasting(step, "delay")
    if step.get("backoff") != "exponential":
        return first
    formula = f"{first} x {number(step.get('multiplier'))}^{step.get('n')}"
    base = seconds(step, "base")
    return formula if base == seconds(step, "cap") else f"{formula} = {in_words(base)}"


def _raised(step: Facts, value: float) -> str:
    asked, floor = seconds(step, "asked"), seconds(step, "floor")
    if max(asked, floor) <= value:
        return ""
    if asked > floor:
        return f", raised to {in_words(asked)} for the workload, which asked for it"
    return f", raised to the bound's least, {in_words(floor)}"


def grace(step: Facts) -> str:
    sentence = (
        f"The delay counts from {moment(step.get('preempted_at'))}, when the preemption was seen"
    )
    if step.get("confirmed") is not False:
        return f"{sentence}."
    period = lasting(step, "grace_period")
    return (
        f"{sentence}; the run's end is not confirmed, so its grace period of {period} counts, too."
    )


def chain_deadline(step: Facts) -> str:
    age, limit = lasting(step, "age"), lasting(step, "limit")
    if passed(step):
        return f"The retry comes due {age} after the chain began, within its limit of {limit}."
    past = f"past its limit of {limit}" if age != limit else "just past its limit"
    return f"The retry would come due {age} after the chain began, {past}."


def avoid_node(step: Facts) -> str:
    return f"The next attempt avoids node {step.get('result')}."


def suspects(met: Facts) -> str:
    """Return which suspect nodes the next attempt left out, or was let onto."""
    names, total = texts(met, "names"), count(met, "count")
    more = [f"{total - len(names)} more"] if total > len(names) else []
    nodes = f"suspect node{'s' * (total > 1)} {listed([*names, *more])}"
    found = f"the {nodes} of {met.get('executor')}"
    if not met.get("allowed"):
        return f"The next attempt left out {found}."
    return f"The next attempt was let onto {found}, since nothing else there had room."


def placement(step: Facts) -> str:
    after, number_ = count(step, "after"), count(step, "number")
    place = listed(_places(step))
    if step.get("result") != "moved":
        return f"Retry {after + 1} of the rule is the first one {place}; this is {number_ + 1}."
    return f"The next attempt runs {place}: it is retry {number_ + 1} of the rule."


def _places(step: Facts) -> list[str]:
    executors = step.get("executors")
    labels = executors.get("labels") if isinstance(executors, dict) else None
    found = {"on nodes": step.get("nodeSelector"), "on executors": labels}
    return [
        f"{where} with {', '.join(f'{name}={value}' for name, value in wanted.items())}"
        for where, wanted in found.items()
        if isinstance(wanted, dict)
    ]


def memory(step: Facts) -> str:
    was, now = step.get("was"), step.get("result")
    if was is None:
        return "The rule asks for more memory, but the session requests no memory that could grow."
    holder = _HOLDERS.get(str(step.get("held_by")), "")
    if was == now:
        why = f": {holder} allows no more" if holder else ""
        return f"The memory of the next attempt stays at {was}{why}."
    held = f", limited by {holder}" if holder else ""
    times = number(step.get("factor"))
    return f"The next attempt gets {now} of memory, {times} times the {was} of this one{held}."
