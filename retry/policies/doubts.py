"""Warnings about policies that are valid, but hardly mean what they say."""

from collections.abc import Iterator

from retry.policies.documents import BackoffPart, Matcher, PolicyDocument, Rule
from retry.policies.inline import BackoffStrategy, InlinePolicy
from retry.policies.matching import DEFAULT_MAX_DELAY
from retry.policies.patterns import pattern
from retry.policies.unreachable_rules import unreachable_rules
from retry.units.durations import in_words, parse_duration

_WAITS = frozenset({"retry_delay", "max_retry_delay", "backoff", "backoff_multiplier"})


def document_doubts(document: PolicyDocument) -> tuple[str, ...]:
    """Return the warnings about a policy document; each begins with the path of its field."""
    spec = document.spec
    return (
        *document.ignored,
        *unreachable_rules(document),
        *_backoff_doubts("spec.backoff", spec.backoff),
        *(
            doubt
            for at, rule in enumerate(spec.rules or ())
            for doubt in _rule_doubts(f"spec.rules[{at}]", rule)
        ),
    )


def policy_doubts(policy: InlinePolicy, asked: InlinePolicy) -> tuple[str, ...]:
    """Return the warnings about the delays of an inline policy that was merged from layers.

    Only a layer that asks for something about delays is warned: the others cannot change them.
    """
    if not _WAITS & asked.model_fields_set:
        return ()
    return tuple(f"retry_policy.{doubt}" for doubt in _inline_doubts(policy))


def _inline_doubts(policy: InlinePolicy) -> Iterator[str]:
    cap = policy.max_retry_delay
    if cap is not None and policy.retry_delay > cap:
        yield "retry_delay " + _above(policy.retry_delay, "max_retry_delay", cap)
    if policy.backoff is BackoffStrategy.EXPONENTIAL and policy.backoff_multiplier < 1:
        yield "backoff_multiplier " + _shrinks(policy.backoff_multiplier)


def _rule_doubts(path: str, rule: Rule) -> Iterator[str]:
    yield from _backoff_doubts(f"{path}.backoff", rule.backoff)
    yield from _matcher_doubts(path, rule)


def _matcher_doubts(path: str, matcher: Matcher) -> Iterator[str]:
    """Yield a warning for each pattern that matches every text."""
    for field, given in matcher.matchers().items():
        text = given.get("pattern") if isinstance(given, dict) else None
        if text is not None and pattern(text).search(b"") is not None:
            yield f"{path}.{field}.pattern matches every text, also an empty one"


def _backoff_doubts(path: str, backoff: BackoffPart | None) -> Iterator[str]:
    if backoff is None:
        return
    first = parse_duration(backoff.initial_delay) if backoff.initial_delay else 0.0
    cap = parse_duration(backoff.max_delay) if backoff.max_delay else DEFAULT_MAX_DELAY
    if first > cap:
        yield f"{path}.initialDelay " + _above(first, "maxDelay", cap)
    if backoff.multiplier is not None and backoff.multiplier < 1:
        yield f"{path}.multiplier " + _shrinks(backoff.multiplier)


def _above(first: float, name: str, cap: float) -> str:
    return f"is {in_words(first)}, above {name}: every retry waits {in_words(cap)}"


def _shrinks(multiplier: float) -> str:
    return f"is {multiplier:g}, below 1: every delay is shorter than the one before"
