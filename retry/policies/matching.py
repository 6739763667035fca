"""Named policies compiled for matching: which rule, if any, matches a failure.

Documents are compiled once, and failures come by the thousand. So a rule becomes a row of tests,
the cheap ones first, over facts that are gathered once for each failure.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from retry.evidence.causes import RetryCause, oom_killed
from retry.evidence.ended import Ended
from retry.evidence.termination import ContainerFacts, Termination, first_failed
from retry.policies.backoff import Backoff
from retry.policies.categories import FailureCategory
from retry.policies.documents import (
    BackoffPart,
    ExitCodes,
    Matcher,
    MemoryGrowth,
    PlacementPart,
    PolicyDocument,
    Rule,
)
from retry.policies.fields import DEFAULT_RULE
from retry.policies.inline import JitterMode
from retry.policies.patterns import found_in, pattern, searchable, title_has
from retry.units.durations import parse_duration

_ContainerChoice = tuple[str | None, bool]
"""The name of the container that a rule names (None: any), and whether init containers count."""

DEFAULT_MAX_DELAY = 600.0
_DEFAULT_JITTER_RATIO = 0.25


class Facts:
    """The facts of one failure that rules may test; each is gathered at most once."""

    __slots__ = (
        "_codes",
        "_considered",
        "_texts",
        "category",
        "ended",
        "signature",
        "termination",
        "title",
    )

    def __init__(
        self, ended: Ended, category: str = "", signature: str = "", title: str = ""
    ) -> None:
        self.ended = ended
        self.termination = ended.termination
        self.category = category
        self.signature = signature
        self.title = title
        self._considered: dict[_ContainerChoice, ContainerFacts | None] = {}
        self._codes: dict[_ContainerChoice, int | None] = {}
        self._texts: dict[_ContainerChoice, list[bytes]] = {}

    @property
    def cause(self) -> RetryCause:
        return self.ended.cause

    @property
    def conditions(self) -> frozenset[str]:
        """Return the conditions of the pod; for `OOMKilled`, see `oom_killed`."""
        return self.ended.conditions

    def considered(self, name: str | None, init: bool) -> ContainerFacts | None:
        """Return the container that a rule tests: the one it names, else the first that failed.

        In a session with several pods, several containers have one name: then the first that
        failed.
        """
        key = (name, init)
        if key not in self._considered:
            candidates = self.containers(name, init)
            found = first_failed(candidates)
            if found is None and name is not None:
                found = next(iter(candidates), None)
            self._considered[key] = found
        return self._considered[key]

    def containers(self, name: str | None, init: bool) -> list[ContainerFacts]:
        """Return the containers that a rule may test."""
        return [
            container
            for container in self.termination.containers
            if (init or not container.init) and name in {None, container.name}
        ]

    def exit_code(self, name: str | None, init: bool) -> int | None:
        """Return the exit code that a rule tests; without containers, the session's."""
        key = (name, init)
        if key not in self._codes:
            self._codes[key] = self._exit_code(name, init)
        return self._codes[key]

    def _exit_code(self, name: str | None, init: bool) -> int | None:
        if not self.termination.containers:
            return self.termination.exit_code if name is None else None
        container = self.considered(name, init)
        return None if container is None else container.exit_code

    def oom_killed(self, name: str | None, init: bool) -> bool:
        """Return whether the container that a rule tests was OOM-killed."""
        if name is None and _stated_oom(self.termination):
            return True
        container = self.considered(name, init)
        if container is not None:
            return oom_killed(container)
        # A killed container's exit code may be unknown; then it does not count as failed.
        return any(oom_killed(each) for each in self.containers(name, init))

    def texts(self, name: str | None, init: bool) -> list[bytes]:
        """Return the `searchable` termination messages that a rule's pattern is searched in.

        This is the session's own message if no container has one.
        """
        key = (name, init)
        if key not in self._texts:
            self._texts[key] = [searchable(message) for message in self._messages(name, init)]
        return self._texts[key]

    def _messages(self, name: str | None, init: bool) -> list[str]:
        termination = self.termination
        if not any(container.message for container in termination.containers):
            return [termination.message] if name is None else []
        return [container.message for container in self.containers(name, init) if container.message]


def _stated_oom(termination: Termination) -> bool:
    if "OOMKilled" in termination.conditions:
        return True
    return termination.reason == "OOMKilled" and termination.exit_code != 0


Test = Callable[[Facts], bool]


class Placement(NamedTuple):
    """The placement of the rule's retries, from its retry number `after` on."""

    after: int
    place: dict[str, Any]
    """`nodeSelector` and `executors`, as the document has them; JSON values."""


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """One rule with everything that its policy adds to it."""

    label: str
    """`policy/rule`: its name in the trace, and the counter that pays its retries."""
    retries: bool
    tests: tuple[tuple[str, Test], ...]
    """Each test, with the text for the trace if it fails."""
    retry_limit: int | None
    backoff: Backoff | None
    backoff_of: str
    """The source of the backoff: the rule's label, or the name of its policy."""
    avoids_node: bool
    growth: MemoryGrowth | None
    matchers: tuple[str, ...]
    retry_window: float | None = None
    """Seconds in which the limit counts."""
    stop_after_same: int | None = None
    reset_on_progress: bool = False
    placement: Placement | None = None


@dataclass(frozen=True, slots=True)
class NamedPolicy:
    """A compiled policy; `default` stands for its `defaultAction`, None if it has none."""

    name: str
    revision: int | None
    rules: tuple[CompiledRule, ...]
    default: CompiledRule | None
    grows_memory: bool
    """Whether one of its rules changes the memory of the next attempt."""
    most_same: int = 0
    """The largest number of equal failures that a rule looks for."""
    longest_window: float = 0.0
    """The longest window in which a rule counts retries, in seconds."""
    parks: bool | None = None
    """True if the policy parks exhausted chains; None if it does not say."""
    park_for: float | None = None
    """Seconds that a chain stays parked."""
    names_container: bool = False
    """Whether one of its rules looks at a container by its name."""

    def payers(self) -> list[CompiledRule]:
        """Return the rules that grant retries, including the default action; each counter once."""
        found: dict[str, CompiledRule] = {}
        for rule in (*self.rules, self.default):
            if rule is not None and rule.retries:
                found.setdefault(rule.label, rule)
        return list(found.values())


@dataclass(frozen=True, slots=True)
class CompiledCategory:
    """A failure category and the tests of each of its matchers."""

    name: str
    matchers: tuple[tuple[tuple[str, Test], ...], ...]


def compile_policy(document: PolicyDocument, *, revision: int | None) -> NamedPolicy:
    """Compile a validated document."""
    spec, name = document.spec, document.metadata.name
    rules = tuple(_rule(rule, document) for rule in spec.rules or ())
    default = None
    if spec.default_action is not None:
        default = CompiledRule(
            label=f"{name}/{DEFAULT_RULE}",
            retries=spec.default_action == "Retry",
            tests=(),
            retry_limit=spec.retry_limit,
            backoff=_backoff(spec.backoff),
            backoff_of=name,
            avoids_node=bool(spec.anti_affinity and spec.anti_affinity.mode == "node"),
            growth=None,
            matchers=(),
        )
    return NamedPolicy(
        name,
        revision,
        rules,
        default,
        grows_memory=any(rule.growth for rule in rules),
        most_same=max((rule.stop_after_same or 0 for rule in rules), default=0),
        longest_window=max((rule.retry_window or 0.0 for rule in rules), default=0.0),
        parks=None if spec.on_exhausted is None else spec.on_exhausted == "Park",
        park_for=parse_duration(spec.park_for) if spec.park_for else None,
        names_container=any(rule.container_name is not None for rule in spec.rules or ()),
    )


def compile_category(category: FailureCategory) -> CompiledCategory:
    """Compile a validated category."""
    return CompiledCategory(
        category.name, tuple(_tests(matcher, init=True) for matcher in category.matchers)
    )


def category_of(facts: Facts, categories: Iterable[CompiledCategory]) -> str:
    """Return the first category with a matcher that holds; "" if there is none."""
    for category in categories:
        for tests in category.matchers:
            for _, holds in tests:
                if not holds(facts):
                    break
            else:
                return category.name
    return ""


def _rule(rule: Rule, document: PolicyDocument) -> CompiledRule:
    spec = document.spec
    avoidance = rule.anti_affinity or spec.anti_affinity
    tests = _tests(rule, init=bool(rule.include_init_containers))
    limit = spec.retry_limit if rule.retry_limit is None else rule.retry_limit
    counter = rule.counter
    label = f"{document.metadata.name}/{counter}"
    return CompiledRule(
        label=label,
        retries=rule.action == "Retry",
        tests=tuple((f"{counter}: {name}", holds) for name, holds in tests),
        retry_limit=limit,
        backoff=_backoff(rule.backoff or spec.backoff),
        backoff_of=label if rule.backoff else document.metadata.name,
        avoids_node=bool(avoidance and avoidance.mode == "node"),
        growth=rule.resources.memory if rule.resources else None,
        matchers=tuple(name for name, _ in tests),
        retry_window=parse_duration(rule.retry_window) if rule.retry_window else None,
        stop_after_same=rule.stop_after_same,
        reset_on_progress=bool(rule.reset_on_progress),
        placement=_placement(rule.placement),
    )


def _placement(part: PlacementPart | None) -> Placement | None:
    if part is None:
        return None
    place = part.document()
    return Placement(place.pop("after", 0), place)


def _backoff(part: BackoffPart | None) -> Backoff | None:
    """Return the backoff; the defaults are 0s, 10m, 2.0, and no jitter."""
    if part is None:
        return None
    ratio = part.jitter_ratio
    jitter = part.jitter
    if jitter is None:
        jitter = JitterMode.NONE if ratio is None else JitterMode.DETERMINISTIC
    longest = DEFAULT_MAX_DELAY if part.max_delay is None else parse_duration(part.max_delay)
    return Backoff(
        delay=parse_duration(part.initial_delay) if part.initial_delay else 0.0,
        multiplier=2.0 if part.multiplier is None else part.multiplier,
        max_delay=longest,
        exponential=True,
        jitter=jitter,
        jitter_ratio=_DEFAULT_JITTER_RATIO if ratio is None else ratio,
    )


def _tests(matcher: Matcher, *, init: bool) -> tuple[tuple[str, Test], ...]:
    """Return the tests of the given matchers by their names in the document, cheap ones first."""
    name = matcher.container_name
    made: dict[str, Test] = {}
    causes = getattr(matcher, "on_causes", None)
    if causes is not None:
        made["onCauses"] = _causes(frozenset(causes))
    categories = getattr(matcher, "on_failure_category", None)
    if categories is not None:
        made["onFailureCategory"] = _categories(frozenset(categories))
    signatures = getattr(matcher, "on_signatures", None)
    if signatures is not None:
        made["onSignatures"] = _signatures(frozenset(signatures))
    if matcher.on_conditions is not None:
        made["onConditions"] = _conditions(matcher.on_conditions, name, init)
    if matcher.on_exit_codes is not None:
        made["onExitCodes"] = _exit_codes(matcher.on_exit_codes, name, init)
    if matcher.on_termination_message is not None:
        made["onTerminationMessage"] = _message(matcher.on_termination_message.pattern, name, init)
    pod_message = getattr(matcher, "on_pod_message", None)
    if pod_message is not None:
        made["onPodMessage"] = _pod_message(pod_message.pattern)
    title = getattr(matcher, "on_signature_title", None)
    if title is not None:
        made["onSignatureTitle"] = _signature_title(title.pattern)
    return tuple(made.items())


def _causes(wanted: frozenset[RetryCause]) -> Test:
    return lambda facts: facts.cause in wanted


def _categories(wanted: frozenset[str]) -> Test:
    return lambda facts: facts.category in wanted


def _signatures(wanted: frozenset[str]) -> Test:
    return lambda facts: facts.signature in wanted


def _conditions(names: Sequence[str], container: str | None, init: bool) -> Test:
    of_pod = frozenset(names) - {"OOMKilled"}
    if "OOMKilled" not in names:
        return lambda facts: not of_pod.isdisjoint(facts.conditions)
    if container is not None:
        # A named container may be a sidecar, whose end is among the pod's conditions only if
        # nothing else failed.
        return lambda facts: (
            facts.oom_killed(container, init) or not of_pod.isdisjoint(facts.conditions)
        )
    return lambda facts: (
        (
            # A container's OOM kill is also among the pod's conditions, so one lookup rules most
            # cases out.
            "OOMKilled" in facts.conditions and facts.oom_killed(container, init)
        )
        or not of_pod.isdisjoint(facts.conditions)
    )


def _exit_codes(given: ExitCodes, container: str | None, init: bool) -> Test:
    codes, inside = frozenset(given.values), given.operator == "In"

    def holds(facts: Facts) -> bool:
        code = facts.exit_code(container, init)
        return bool(code) and (code in codes) is inside

    return holds


def _message(text: str, container: str | None, init: bool) -> Test:
    compiled: Any = pattern(text)

    def holds(facts: Facts) -> bool:
        for message in facts.texts(container, init):  # noqa: SIM110  # half the price of any()
            if found_in(compiled, message):
                return True
        return False

    return holds


def _pod_message(text: str) -> Test:
    compiled: Any = pattern(text)
    return lambda facts: found_in(compiled, searchable(facts.termination.pod_message))


def _signature_title(text: str) -> Test:
    pattern(text)
    return lambda facts: title_has(text, facts.title)
