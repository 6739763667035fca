"""The charts of the last 24 hours, for the page of operators and for the admin."""

from collections import Counter
from collections.abc import Sequence

from interfaces.templatetags.reprise import words
from interfaces.web.parts import Chart, Series
from reprise.monitoring.hours import Hour

CAUSES = 3
"""Causes that have a series of their own; all others are one."""
_TONES = ("bad", "waiting", "live", "off")


def charts(hours: Sequence[Hour]) -> list[Chart]:
    """Return what ended and how, why attempts failed, and what was submitted and retried."""
    labels = [f"{hour.at:%H:%M}" for hour in hours]
    labels[0] = f"{labels[0]} UTC"
    ends = [
        Series("succeeded", "good", [hour.succeeded for hour in hours]),
        Series("failed", "bad", [hour.failed for hour in hours]),
        Series("cancelled", "off", [hour.cancelled for hour in hours]),
    ]
    begins = [
        Series("submitted", "accent", [hour.submitted for hour in hours]),
        Series("retries", "waiting", [hour.retried for hour in hours]),
    ]
    unit = "an hour"
    return [
        Chart("Ends of attempts", labels, ends, unit),
        Chart("Causes of failures", labels, _causes(hours), unit),
        Chart("New sessions and retries", labels, begins, unit),
    ]


def _causes(hours: Sequence[Hour]) -> list[Series]:
    total: Counter[str] = Counter()
    for hour in hours:
        total.update(hour.causes)
    named = [cause for cause, _ in total.most_common(CAUSES)]
    found = [
        Series(words(cause), tone, [hour.causes.get(cause, 0) for hour in hours])
        for cause, tone in zip(named, _TONES, strict=False)
    ]
    rest = [
        sum(count for cause, count in hour.causes.items() if cause not in named) for hour in hours
    ]
    return [*found, Series("others", _TONES[-1], rest)] if any(rest) else found
