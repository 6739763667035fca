"""The shapes of schedules, for the OpenAPI document."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from interfaces.shapes.pages import Page


class Schedule(BaseModel):
    """A schedule: a session for each of its times, submitted as its owner."""

    id: UUID
    project: str
    name: str
    owner: str | None
    queue: str | None
    """Null: the project's default queue."""
    cron: str | None
    time_zone: str
    every: int | None
    from_: datetime | None = Field(alias="from")
    until: datetime | None
    template: dict[str, Any]
    """The body of a submission, as it was given."""
    overlap: Literal["allow", "skip", "cancel_running"]
    catch_up: int
    jitter: int
    pause_after: int | None
    paused: bool
    paused_at: datetime | None
    paused_reason: str
    next_at: datetime | None
    """Its next time, without the jitter; null after the last one."""
    last_at: datetime | None
    """The latest time for which a session was made."""
    last_problem: str
    """Why the latest time has no session."""
    created_at: datetime


class ScheduleRun(BaseModel):
    """A chain that a schedule made."""

    session_id: UUID
    """The first session of the chain."""
    status: str
    """That of the newest attempt; the next fields likewise."""
    retry_state: str
    submitted_at: datetime


class ScheduleDetail(Schedule):
    """A schedule with its next times and its latest chains."""

    next_times: list[datetime]
    """At most five, also while it is paused."""
    recent: list[ScheduleRun]
    """Its latest chains that are still recorded, newest first, without those of backfills."""


class SavedSchedule(ScheduleDetail):
    """A schedule as it was saved."""

    warnings: list[str] = []
    """About the sessions that it will make; left out if there are none."""


class SchedulePage(Page[Schedule]):
    """Schedules, oldest first."""


class NextTimes(BaseModel):
    """The next times of a schedule, at most five."""

    times: list[datetime]


class ScheduledSession(BaseModel):
    """The session that a schedule made by hand."""

    id: UUID
    warnings: list[str] = []
    """Left out if there are none."""


class BackfilledTime(BaseModel):
    """A time, and the session made for it."""

    time: datetime
    creation_id: str
    session_id: UUID | None
    """Null for a dry run and for a refusal."""
    error: str | None
    """Why it has no session."""


class Backfilled(BaseModel):
    """The times of a backfill."""

    dry_run: bool
    made: int
    """The number of sessions."""
    results: list[BackfilledTime]
