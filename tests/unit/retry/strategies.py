"""Generated values for the property tests: anything that validation lets through."""

from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

from retry.engine.decide import Mode, Settings
from retry.evidence.termination import ContainerFacts, Termination
from retry.policies.inline import InlinePolicy
from retry.policies.merge import Bound, Layer, MergedBounds
from tests.unit.retry.build import NOW

WORDS = st.sampled_from(
    (
        "",
        "Error",
        "OOMKilled",
        "Evicted",
        "Preempted",
        "DeadlineExceeded",
        "Unschedulable",
        "DisruptionTarget",
        "Unknown",
        "ErrImagePull",
        "CrashLoopBackOff",
        "QuotaExceeded",
        "OutOfcpu",
    )
)
TEXTS = st.one_of(WORDS, st.text(max_size=20), st.just("it exceeds the limit"))
EXIT_CODES = st.one_of(st.none(), st.integers(-1, 300))

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | WORDS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "status",
                    "exit_code",
                    "conditions",
                    "reason",
                    "message",
                    "containers",
                    "name",
                    "node",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)

containers = st.builds(
    ContainerFacts,
    name=st.sampled_from(("a", "b", "c")),
    init=st.booleans(),
    exit_code=EXIT_CODES,
    reason=TEXTS,
    message=TEXTS,
    finished_at=st.one_of(
        st.just(""),
        st.text(max_size=5),
        st.datetimes().map(lambda at: at.isoformat() + "Z"),
        st.just("0001-01-01T00:00:00+23:59"),
    ),
)
terminations = st.builds(
    Termination,
    status=st.sampled_from(("error", "error", "error", "cancelled")),
    exit_code=EXIT_CODES,
    conditions=st.lists(WORDS, max_size=2).map(tuple),
    reason=TEXTS,
    message=TEXTS,
    pod_message=TEXTS,
    node=st.sampled_from(("", "n1")),
    lease_expired=st.booleans(),
    containers=st.lists(containers, max_size=3).map(tuple),
)

positive = st.floats(min_value=0, exclude_min=True, allow_infinity=False, allow_nan=False)
retries = st.one_of(st.integers(0, 6), st.integers(0, 1_000_000))


def allowed(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values of a field that its JSON Schema allows, small numbers among them."""
    if "anyOf" in schema:
        return st.one_of(*map(allowed, schema["anyOf"]))
    if "$ref" in schema:
        return allowed(SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema["type"] == "array":
        return st.lists(allowed(schema["items"]), max_size=11)
    if schema["type"] in {"integer", "number"}:
        return numbers(schema)
    return {"null": st.none(), "boolean": st.booleans()}[schema["type"]]


def numbers(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    if schema["type"] == "integer":
        low, high = schema["minimum"], schema["maximum"]
        return st.integers(low, min(low + 6, high)) | st.integers(low, high)
    if "exclusiveMinimum" in schema:
        most = schema.get("maximum")
        return positive if most is None else positive.map(lambda number: min(number, most))
    return st.floats(schema["minimum"], schema.get("maximum"), allow_infinity=False)


SCHEMA = InlinePolicy.model_json_schema()
FIELDS = {name: allowed(schema) for name, schema in SCHEMA["properties"].items()}


@st.composite
def policies(draw: st.DrawFn, /, **fixed: Any) -> InlinePolicy:
    """A valid policy with any of its fields set, at any magnitude that validation allows."""
    chosen = draw(st.fixed_dictionaries({}, optional=FIELDS))
    return InlinePolicy.model_validate({**chosen, **fixed})


def bound_of(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Bound | None]:
    return st.none() | st.builds(Bound, value=values, layer=st.sampled_from(Layer))


bounds = st.builds(
    MergedBounds,
    max_retries=bound_of(retries),
    max_preemption_retries=bound_of(retries),
    max_chain_duration=bound_of(positive),
    min_retry_delay=bound_of(positive),
)
settings = st.builds(
    Settings,
    mode=st.sampled_from(Mode),
    global_max_retries=st.integers(0, 10) | st.just(150) | st.none(),
)
moments = st.integers(-(10**9), 2 * 10**11).map(lambda seconds: NOW + timedelta(seconds=seconds))
fractions = st.floats(0, 1, exclude_max=True)
