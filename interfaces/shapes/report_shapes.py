"""The shapes of reports, for the OpenAPI document."""

from datetime import datetime

from pydantic import BaseModel


class RetryFigures(BaseModel):
    """The figures of chains whose last attempt ended in the time: what their retries were worth.

    Chains whose retry waits are not in it yet. Times are seconds.
    """

    chains: int
    """The number of chains that ended."""
    retried_chains: int
    """Those with at least one retry."""
    recovered_chains: int
    """Those that succeeded after at least one retry."""
    given_up_chains: int
    """Those that ended with a failure."""
    cancelled_chains: int
    """Those that somebody cancelled."""
    attempts: int
    """The number of their attempts."""
    run_seconds: float
    """The run time of these attempts."""
    rescued_run_seconds: float
    """The run time of all attempts of the recovered chains."""
    wasted_run_seconds: float
    """The run time of the attempts that failed, without the part of their steps that the next
    attempt kept by a checkpoint."""
    waiting_seconds: float
    """The time from the end of an attempt until the next one of its chain ran."""
    recovery_seconds_median: float | None
    """The time from the end of the first attempt to the success, of half of the recovered chains at
    most; within 15 %. Null if none recovered."""
    recovery_seconds_p95: float | None
    """Likewise of 95 % of them."""


class RetryReportRow(RetryFigures):
    """The figures of one value of what the report is by."""

    value: str | None
    """The cause, the rule and so on; of a day its date. Null for all values beyond the first
    1,000."""
    title: str
    """What the failures of a signature say; "" for everything else."""


class RetryReport(BaseModel):
    """The report of retries: figures of a time, in all and by the dimension that was asked for."""

    project: str | None
    """Null: all projects that one may see."""
    since: datetime
    """The beginning of the first day."""
    until: datetime
    """The end of the last day."""
    by: str
    advice: list[str]
    """Sentences about a replay of the 30 days before `advice_computed_at`; none of
    several projects."""
    advice_computed_at: datetime | None
    """When that was, also if there was nothing to say; null if there was no replay in the last
    three days."""
    total: RetryFigures
    results: list[RetryReportRow]
    """Those with the most wasted time first; days in their order."""
