"""The report of a simulation for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType

from reprise_client.cli.output import facts, grid, heading, link
from reprise_client.cli.reasons import RETRY_REASONS, SPENT
from reprise_client.cli.simulation_parts import MAX_CHANGED
from reprise_client.cli.text import Text
from reprise_client.cli.words import counted, reason, span

if TYPE_CHECKING:
    from reprise_client.models import Simulation, SimulationSummary

SHOWN = 20
"""Most chains to list one by one."""


def simulation_report(found: Simulation, about: str, web: str) -> RenderableType:
    """Return the sums and the differences; `web` is the address of the server's pages."""
    summary = found.summary
    parts: list[RenderableType] = [
        Text(f"{counted(summary.chains, 'chain')} {about}; nothing was changed."),
        _sums(summary),
    ]
    if summary.by_cause:
        parts += [heading("Retries by cause"), _counts("CAUSE", summary.by_cause)]
    if summary.by_rule:
        parts += [heading("Retries by rule"), _counts("RULE", summary.by_rule)]
    if summary.by_reason:
        parts += [heading("Decisions by reason"), _reasons(summary.by_reason)]
    if found.chains:
        parts += [heading("Chains"), _chains(found)]
        parts += _failures(found)
    if "added_attempts" in summary.model_fields_set:
        parts += _changed(summary, web)
    if summary.assumptions:
        parts += [heading("Assumed"), *map(Text, summary.assumptions)]
    return Group(*parts)


def _sums(summary: SimulationSummary) -> RenderableType:
    decided = sum(summary.by_reason.values())
    spent = sum(count for word, count in summary.by_reason.items() if word in SPENT)
    pairs = [
        ("Retries granted", f"{summary.retries:,}"),
        ("Out of retries", f"{spent:,}"),
        ("Refused otherwise", f"{decided - summary.retries - spent:,}"),
    ]
    if "added_attempts" in summary.model_fields_set:
        seconds = summary.added_run_seconds
        pairs += [
            ("Added attempts", f"{summary.added_attempts:+,}" if summary.added_attempts else "0"),
            ("Added run time", f"{_sign(seconds)}{span(abs(seconds))}"),
        ]
    return facts([*pairs, *_shared(summary)])


def _shared(summary: SimulationSummary) -> Iterator[tuple[str, str]]:
    """Yield what breakers and shared budgets did."""
    known = summary.held_seconds or {}
    for name, title in (("breaker", "Held by a breaker"), ("shared_budget", "Held by a budget")):
        if times := (summary.held or {}).get(name):
            about = f", about {span(known[name])} in all" if name in known else ""
            yield title, f"{counted(times, 'time')}{about}"
    if summary.held_seconds is not None:
        yield "Retries spared", f"{summary.spared_retries:,}"
        yield "Breakers opened", f"{summary.breakers_opened:,}"


def _sign(number: float) -> str:
    rounded = round(number)
    return "-" if rounded < 0 else "+" if rounded else ""


def _counts(head: str, counts: Mapping[str, int]) -> RenderableType:
    return grid([head, "RETRIES"], ([name, f"{count:,}"] for name, count in _most(counts)))


def _reasons(counts: Mapping[str, int]) -> RenderableType:
    rows = (
        [word, f"{count:,}", f"{'retried: ' if word in RETRY_REASONS else ''}{reason(word)}"]
        for word, count in _most(counts)
    )
    return grid(["REASON", "DECISIONS", "BECAUSE"], rows)


def _most(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def _chains(found: Simulation) -> RenderableType:
    rows = []
    for number, chain in enumerate(found.chains[:SHOWN], 1):
        last = chain.attempts[-1] if chain.attempts else None
        name = last.reason if last and last.action == "fail" else ""
        rows.append(
            [str(number), chain.outcome, str(len(chain.attempts)), reason(name) if name else ""]
        )
    return Group(
        grid(["CHAIN", "OUTCOME", "ATTEMPTS", "BECAUSE"], rows),
        *_more(len(found.chains) - SHOWN),
    )


def _failures(found: Simulation) -> list[RenderableType]:
    """Return the failures by their signatures, the most frequent first."""
    attempts = [each for chain in found.chains for each in chain.attempts]
    titles = {each.failure_signature: each.failure_title or "" for each in attempts}
    counts = Counter(each.failure_signature for each in attempts if each.failure_signature)
    rows = [[key, str(count), titles[key]] for key, count in counts.most_common(SHOWN)]
    if not rows:
        return []
    table = grid(["SIGNATURE", "ATTEMPTS", "TITLE"], rows)
    return [heading("Failures"), table, *_more(len(counts) - SHOWN)]


def _changed(summary: SimulationSummary, web: str) -> list[RenderableType]:
    if not summary.changed:
        return [Text("\nEvery chain would have come to what it did.")]
    turns = Counter(f"{each.was} -> {each.would_be}" for each in summary.changed)
    more = " or more" if len(summary.changed) >= MAX_CHANGED else ""
    title = f"{len(summary.changed):,}{more} would have come to something else"
    rows: list[list[str | Text]] = [
        [link(each.root, f"{web}/sessions/{each.root}/"), each.was, each.would_be]
        for each in summary.changed[:SHOWN]
    ]
    return [
        heading(title),
        Text(", ".join(f"{count} {turn}" for turn, count in turns.most_common())),
        Text(),
        grid(["ID", "WAS", "WOULD BE"], rows),
        *_more(len(summary.changed) - SHOWN),
    ]


def _more(left: int) -> list[RenderableType]:
    return [Text(f"and {left:,} more: -o json")] if left > 0 else []
