"""What operators are told, as JSON values: REST and GraphQL send the same."""

from collections.abc import Sequence
from typing import Any

from interfaces.render.by_shape import rendered
from reprise.monitoring.hours import Hour
from reprise.operations import shapes
from reprise.operations.overview import Operations, Timetable, Trends
from reprise.operations.problems import Act, Problem, Switch
from sessions_app.models import Schedule
from sessions_app.selectors.counts import Count


def operations_json(seen: Operations, known: Timetable) -> dict[str, Any]:
    """Return the state of the deployment."""
    return rendered(
        shapes.Operations,
        seen,
        waiting=seen.waiting._asdict(),
        live=seen.live._asdict(),
        retries={name: count._asdict() for name, count in seen.retries._asdict().items()},
        problems=[_problem_json(each) for each in seen.problems],
        switches=[_switch_json(each) for each in seen.switches],
        schedules={
            "coming": [_schedule_json(each) for each in known.coming],
            "paused": [_schedule_json(each) for each in known.paused],
        },
    )


def trends_json(seen: Trends) -> dict[str, Any]:
    """Return the last hours."""
    return {"at": seen.at, "hours": [_hour_json(each) for each in seen.hours]}


def _problem_json(problem: Problem) -> dict[str, Any]:
    affected = _counted(problem.affected)
    return rendered(shapes.OperatorProblem, problem, affected=affected, acts=_acts(problem.acts))


def _switch_json(switch: Switch) -> dict[str, Any]:
    return rendered(
        shapes.OperatorSwitch,
        switch,
        holds=_counted(switch.holds),
        would_hold=switch.would_hold._asdict(),
        acts=_acts(switch.acts),
    )


def _schedule_json(schedule: Schedule) -> dict[str, Any]:
    return rendered(
        shapes.OperatorSchedule,
        schedule,
        project=schedule.project.address,
        owner=schedule.owner and schedule.owner.username,
        cron=schedule.cron or None,
    )


def _hour_json(hour: Hour) -> dict[str, Any]:
    return rendered(shapes.HourOfTrends, hour)


def _acts(acts: Sequence[Act]) -> list[dict[str, Any]]:
    return [{"name": act.name, "of": act.of} for act in acts]


def _counted(count: Count | None) -> dict[str, Any] | None:
    return None if count is None else count._asdict()
