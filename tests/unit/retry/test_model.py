"""Random chains through the engine and through the naive model: they must agree on everything."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from base.podspec.quantity import parse
from retry.engine.decide import Chain, Decision, Mode, Rulebook, Settings, counters_after, decide
from retry.engine.decision import Payment
from retry.evidence.causes import RetryCause
from retry.evidence.ended import Ended
from retry.evidence.termination import Termination
from retry.policies.categories import FailureCategory
from retry.policies.documents import PolicyDocument
from retry.policies.inline import Bounds, InlinePolicy
from retry.policies.matching import compile_category, compile_policy
from retry.policies.merge import Layer, merge, merge_bounds
from tests.unit.retry import model, worlds
from tests.unit.retry.build import ROOT_CREATED_AT
from tests.unit.retry.model_facts import Json

LAYERS = (Layer.CLUSTER, Layer.DOMAIN, Layer.PROJECT)
MODES = ("on",) * 14 + ("paused", "off")
LONGEST_CHAIN = 10
EXAMPLES = settings().max_examples * 3


@dataclass(frozen=True)
class Attempt:
    """One end of a chain, with what was set when it came."""

    end: Json
    mode: str
    global_max_retries: int | None
    edited: Json | None
    """The first policy, if somebody has edited it since the attempt before."""
    ran: float
    preempted_for: float | None
    confirmed: bool
    random: float
    given: str | None
    signature: str
    title: str
    advanced: bool
    gave_way: bool

    @property
    def cause(self) -> str | None:
        """The cause, if somebody knows it already; of a cancelled session it is known anyway."""
        return None if self.end["status"] == "cancelled" else self.given


attempts = st.builds(
    Attempt,
    end=worlds.ends,
    mode=st.sampled_from(MODES),
    global_max_retries=st.sampled_from((150, 150, 150, 20, 3, 1, None)),
    edited=st.none() | st.none() | worlds.documents("p0"),
    ran=st.sampled_from((0.0, 10.0, 4000.0)),
    preempted_for=st.sampled_from((None, 0.0, 4.0, 100.0)),
    confirmed=st.booleans(),
    random=st.sampled_from((0.0, 0.5, 0.999)),
    given=st.sampled_from((None, None, None, "kernel_nonzero_exit", "preempted")),
    signature=st.sampled_from((*worlds.SIGNATURES[:1] * 3, *worlds.SIGNATURES[1:], "")),
    title=st.sampled_from(("", *worlds.MESSAGES[2:5])),
    advanced=st.sampled_from((False, False, False, True)),
    gave_way=st.sampled_from((False,) * 9 + (True,)),
)


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    data=st.data(),
    session_type=st.sampled_from(("batch",) * 19 + ("interactive",)),
    world=st.fixed_dictionaries(
        {
            "layers": worlds.layers,
            "bounds": worlds.bounds,
            "policies": worlds.policy_lists,
            "categories": worlds.categories,
        }
    ),
    resources=worlds.resources,
    ceiling=st.sampled_from((None, None, 2 * 1024**3)),
)
def test_the_engine_decides_as_the_page_says(
    data: st.DataObject,
    session_type: str,
    world: Json,
    resources: Json,
    ceiling: int | None,
) -> None:
    now = ROOT_CREATED_AT
    chain: Json = {
        "type": session_type,
        "retry_count": 0,
        "created": now,
        "counters": {},
        "resources": resources,
        "ceiling": ceiling,
        "grace": 300.0,
        "failures": [],
        "paid": [],
        "marks": {},
        "advanced_at": 0,
    }
    for _ in range(LONGEST_CHAIN):
        attempt = data.draw(attempts)
        now += timedelta(seconds=attempt.ran)
        world = edited(world, attempt)
        chain = chain | {
            "id": f"00000000-0000-4000-8000-{chain['retry_count']:012}",
            "preempted_at": None
            if attempt.preempted_for is None
            else now - timedelta(seconds=attempt.preempted_for),
            "confirmed": attempt.confirmed,
            "signature": attempt.signature,
            "title": attempt.title,
            "advanced": attempt.advanced,
            "gave_way": attempt.gave_way,
        }
        if attempt.advanced:
            chain |= {"marks": chain["counters"], "advanced_at": len(chain["paid"])}
        decision = engine(attempt, chain, world, now)
        expected = model.decide(attempt.end, chain, world, now, attempt.random, attempt.cause)
        assert fields_of(decision) == rounded(expected)
        event(decision.reason if decision else "succeeded")
        if decision is None or decision.due_at is None or decision.paid_by is None:
            break
        chain = chain | {
            "retry_count": chain["retry_count"] + 1,
            "counters": counters_after(chain["counters"], decision.paid_by),
            "resources": decision.resources,
            "paid": [*chain["paid"], (decision.paid_by, now)],
        }
        if decision.cause.value not in model.PLATFORM:
            failure = "" if attempt.advanced else attempt.signature
            chain["failures"] = [failure, *chain["failures"]]
        assert sum(chain["counters"].values()) == chain["retry_count"]
        now = decision.due_at


def edited(world: Json, attempt: Attempt) -> Json:
    policies = world["policies"]
    if policies and attempt.edited:
        policies = [attempt.edited, *policies[1:]]
    return world | {
        "policies": policies,
        "mode": attempt.mode,
        "global_max_retries": attempt.global_max_retries,
    }


def engine(attempt: Attempt, chain: Json, world: Json, now: datetime) -> Decision | None:
    layers = [
        (layer, InlinePolicy.model_validate(fields))
        for layer, fields in zip(LAYERS, world["layers"], strict=False)
    ]
    limits = [
        (layer, Bounds.model_validate(fields))
        for layer, fields in zip(LAYERS, world["bounds"], strict=False)
    ]
    return decide(
        Ended(
            Termination.from_json(attempt.end), RetryCause(attempt.cause) if attempt.cause else None
        ),
        Chain(
            session_id=chain["id"],
            session_type=chain["type"],
            retry_count=chain["retry_count"],
            root_created_at=chain["created"],
            counters=chain["counters"],
            resources=chain["resources"],
            memory_ceiling=None if chain["ceiling"] is None else Decimal(chain["ceiling"]),
            preempted_at=chain["preempted_at"],
            confirmed=chain["confirmed"],
            grace_period=chain["grace"],
            signature=chain["signature"],
            failures=chain["failures"],
            paid=[Payment(*each) for each in chain["paid"]],
            advanced=chain["advanced"],
            marks=chain["marks"],
            gave_way=chain["gave_way"],
            title=chain["title"],
        ),
        Rulebook(
            policy=merge(layers).policy,
            named=tuple(
                compile_policy(PolicyDocument.model_validate(document), revision=1)
                for document in world["policies"]
            ),
            categories=tuple(
                compile_category(FailureCategory.model_validate(category))
                for category in world["categories"]
            ),
            bounds=merge_bounds(limits),
            settings=Settings(Mode(world["mode"]), world["global_max_retries"]),
        ),
        now,
        attempt.random,
    )


def fields_of(decision: Decision | None) -> Json | None:
    """Return the fields of an engine's decision that the model has, too."""
    if decision is None:
        return None
    names = (
        "action",
        "reason",
        "cause",
        "failure_category",
        "rule",
        "paid_by",
        "used",
        "limit",
        "delay",
        "due_at",
        "avoid_node",
        "resources",
        "placement",
        "retry_state",
    )
    fields = {name: getattr(decision, name) for name in names}
    return rounded(fields | {"resources": in_bytes(decision.resources)})


def in_bytes(resources: Any) -> Any:
    """Memory as a number, however it is spelled."""
    if resources is None:
        return None
    return {
        name: in_bytes(value)
        if name in {"requests", "limits"}
        else int(parse(value))
        if name == "memory"
        else value
        for name, value in resources.items()
    }


def rounded(fields: Json | None) -> Json | None:
    """To the microsecond, below which the order of multiplications tells."""
    if fields is None or fields["delay"] is None:
        return fields
    due_at = fields["due_at"] + timedelta(microseconds=5)
    return fields | {
        "delay": round(fields["delay"], 6),
        "due_at": due_at.replace(microsecond=due_at.microsecond // 10 * 10),
    }
