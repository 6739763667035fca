"""What waits for a chain that failed is cancelled with all that waits for it, however deep."""

from random import Random
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from retry.evidence.termination import Termination
from sessions_app.core.dependencies import is_met
from sessions_app.models import Project, Session
from sessions_app.services.chains import dependants
from sessions_app.services.chains.dependants import dependants_follow, dependants_release
from sessions_app.services.chains.settle import End, sessions_settle
from tests import factories
from tests.agent import Api
from tests.factories import reread, submit
from tests.invariants import check_all

FAILED = End(Termination(exit_code=3))
NEVER = ("final", "dependency_failed")


@pytest.fixture
def by(at: Project) -> User:
    return factories.user(project=at)


def after(at: Project, by: User, *on: Session, **fields: Any) -> Session:
    wanted = [{"session": str(each.pk), "when": "succeeded"} for each in on]
    return submit(at, depends_on=wanted, owner=by, **fields)


def line(at: Project, by: User, length: int) -> list[Session]:
    """The first session of a line, and those that wait for the one before."""
    found = [submit(at, owner=by)]
    for _ in range(length):
        found.append(after(at, by, found[-1]))
    return found


def states(sessions: list[Session]) -> list[tuple[str, str]]:
    rows = {each.pk: each for each in Session.objects.filter(pk__in=[s.pk for s in sessions])}
    return [(rows[each.pk].phase, rows[each.pk].retry_cause) for each in sessions]


def test_a_slice_takes_a_line_in_the_same_statements_however_deep(at: Project, by: User) -> None:
    counts = []
    for deep in (20, 45):
        first, *later = line(at, by, deep)
        sessions_settle({first.pk: FAILED})
        with CaptureQueriesContext(connection) as found:
            step = dependants_release([first.pk])
        assert (step.claimed, len(step.cancelled)) == (1, deep)
        assert states(later) == [NEVER] * deep
        counts.append(len(found))
    assert counts[0] == counts[1] <= 14
    assert check_all() == []


def test_a_slice_takes_no_more_than_it_may(
    at: Project, by: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *later = line(at, by, 9)
    sessions_settle({first.pk: FAILED})
    assert len(dependants_release([first.pk], limit=4).cancelled) == 4
    assert states(later) == [NEVER] * 4 + [("blocked", "")] * 5
    monkeypatch.setattr(dependants, "BATCH", 4)
    assert dependants_follow([later[3].pk]) == 5
    assert states(later) == [NEVER] * 9
    assert check_all() == []


def test_each_one_is_told_what_it_waited_for(at: Project, by: User, api: Api) -> None:
    first, second, third = line(at, by, 2)
    sessions_settle({first.pk: FAILED})
    dependants_release([first.pk])
    assert str(first.pk) in reread(second).status_message
    assert reread(third).status_message.endswith(f"any more: {second.pk} (cancelled)")
    root = Api(factories.token(factories.user(superuser=True)))
    (told,) = root.read(f"sessions/{third.pk}/")["depends_on"]
    assert (told["outcome"], told["met"]) == ("cancelled", False)


def model(waits: list[dict[int, str]], policies: list[str]) -> list[str]:
    """How each of some sessions ends up once the first one has failed; one after the other."""
    found = ["failed"]
    for number, on in list(enumerate(waits))[1:]:
        seen = {each: {"never": "cancelled", "failed": "failed"}.get(found[each]) for each in on}
        unmet = [e for e, when in on.items() if (out := seen[e]) and not is_met(when, out)]
        if unmet and policies[number] == "cancel":
            found.append("never")
        else:
            found.append("blocked" if None in seen.values() else "waiting")
    return found


@pytest.mark.parametrize("seed", range(12))
def test_any_shape_ends_up_as_one_after_the_other(
    at: Project, by: User, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = Random(seed)
    monkeypatch.setattr(dependants, "BATCH", draw.choice([1, 3, 500]))
    sessions, waits, policies = [submit(at, owner=by)], [dict[int, str]()], ["cancel"]
    for number in range(1, 30):
        on = draw.sample(range(number), min(number, draw.choice([1, 1, 1, 2, 3])))
        whens = ["succeeded"] * 5 + ["ended", "failed"]
        waits.append({each: draw.choice(whens) for each in on})
        policies.append(draw.choice(["cancel"] * 4 + ["run"]))
        wanted = [{"session": str(sessions[e].pk), "when": w} for e, w in waits[-1].items()]
        more = {"depends_on": wanted, "on_dependency_failure": policies[-1]}
        sessions.append(submit(at, owner=by, **more))
    sessions_settle({sessions[0].pk: FAILED})
    dependants_follow([sessions[0].pk])
    expected = model(waits, policies)
    names = {"final": "never", "waiting": "waiting", "blocked": "blocked"}
    assert ["failed"] + [names[phase] for phase, _ in states(sessions[1:])] == expected
    assert check_all() == []
