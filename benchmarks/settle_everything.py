"""Settle and dispatch with everything on, against everything off: `settle --everything`.

Each session has failed and was retried once already, so that what is read of a chain's past is
there. The same services settle and dispatch the second attempts. Two databases take turns of half a
second, since a machine's speed swings: one with nothing, and one with all that can be switched on:

* the inline policy has `stop_after_same`, `retry_window`, `reset_on_progress` and `on_exhausted:
  park`;
* the queue has a named policy. Its first rule looks for other signatures. Its second one matches a
  failure category, and pays, with `retryWindow`, `stopAfterSame` and `resetOnProgress`;
* two failure categories look at the title of the failure, and the second one finds it;
* the run told its step and its checkpoint;
* sessions avoid suspect nodes, and their executor has one;
* the queue and the cluster have breakers, and those of two other failures are open;
* cluster, domain, project and queue have shared budgets, all of which dispatch charges.

Signatures are always on: on both sides the report of the failure has 16 KiB of output, with the
traceback from which the signature comes.

`ratio_everything` is the rate with everything to the rate with nothing. `ratio_settle` and
`ratio_dispatch` are of each of the two alone: the time that the clients spend in it with nothing,
to that with everything. `ratio_cpu` is of the CPU that clients and their backends use: it swings
less than the rates where other work takes the machine's time.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import timedelta
from statistics import median
from typing import TYPE_CHECKING, Any
from uuid import UUID

from benchmarks.checks import require_decided
from benchmarks.database import benchmark_database, use_instead
from retry.engine.budgets import FAILURE_BUDGET
from retry.policies.shared_budget import MOST_BURST

if TYPE_CHECKING:
    from benchmarks.settle_workers import Measured

NOTHING: dict[str, Any] = {"max_retries": 3, "retry_delay": 0.001}
EVERYTHING: dict[str, Any] = {
    **NOTHING,
    "stop_after_same": 5,
    "retry_window": 86_400.0,
    "reset_on_progress": True,
    "on_exhausted": "park",
}
POLICY, CATEGORY = "everything", "unlabelled_rows"
_OF_A_RULE = {"action": "Retry", "retryLimit": 3, "retryWindow": "24h", "stopAfterSame": 5}
DOCUMENT: dict[str, Any] = {
    "apiVersion": "reprise/v1",
    "kind": "RetryPolicy",
    "metadata": {"name": POLICY},
    "spec": {
        "onExhausted": "Park",
        "rules": [
            {"name": "others", "onSignatures": ["c" * 12, "d" * 12], **_OF_A_RULE},
            {
                "name": "rows",
                "onFailureCategory": [CATEGORY],
                "resetOnProgress": True,
                **_OF_A_RULE,
            },
        ],
    },
}
TITLES = {"collectives": "NCCL|CUDA", CATEGORY: "^ValueError: row # .* has no label"}
"""Failure categories, in their order, with the pattern of the titles that they match."""
SIZES = {100: 1_600, 1: 200}
"""Sessions of a turn, by the size of the batches."""
NAMES = {100: "batched", 1: "single"}
CLIENTS = 8
PAIRS, QUICK_PAIRS = 16, 4

_RUNNING_AGAIN = """
    UPDATE sessions_app_session SET status = 'RUNNING', phase = 'live', scheduled_at = now(),
        accepted_at = now(), started_at = now(), node = 'node-1', executor = 'executor-1',
        fencing_token = 1, report_seq = 2, event_seq = event_seq + 3
    WHERE parent_id = ANY(%s::uuid[]) RETURNING id
"""


Running = Callable[[int, int, dict[str, Any], list[str]], list[UUID]]
"""Creates running sessions: their number, the size of batches, their inline policy and the names of
the others."""


def ratios_of_everything(
    make_tenants: Callable[[], None], running: Running, *, quick: bool
) -> dict[str, float]:
    """Return the median ratios of the pairs by size, and the smaller one of `everything`.

    Each side has a database. `make_tenants` creates what sessions need in the present one.
    """
    ratios: dict[str, float] = {}
    with (
        benchmark_database("reprise_bench_nothing") as nothing,
        benchmark_database("reprise_bench_everything") as everything,
    ):
        urls = {False: nothing, True: everything}
        for on, url in urls.items():
            use_instead(url)
            make_tenants()
            switch(on)
        for size in SIZES:
            ratios |= _ratios_of_size(urls, running, size, QUICK_PAIRS if quick else PAIRS)
    smaller = min(ratios[f"ratio_everything_{name}"] for name in NAMES.values())
    return {**ratios, "ratio_everything": smaller}


def _ratios_of_size(
    urls: Mapping[bool, str], running: Running, size: int, pairs: int
) -> dict[str, float]:
    from benchmarks.settle_client import warm_sessions
    from benchmarks.settle_workers import Workers

    sessions: dict[bool, list[UUID]] = {}
    for on, url in urls.items():
        use_instead(url)
        count = pairs * SIZES[size] + CLIENTS * warm_sessions(size)
        sessions[on] = second_attempts(running, count, size, everything=on)
    found = []
    with ExitStack() as stack:
        sides = {
            on: stack.enter_context(
                Workers(url, sessions[on], size, CLIENTS, turns=pairs, ended=_end(on, 1))
            )
            for on, url in urls.items()
        }
        for number in range(pairs):
            # Which side is first alternates.
            first = bool(number % 2)
            turns = {on: sides[on].turn() for on in (first, not first)}
            found.append(_ratios(nothing=turns[False], everything=turns[True]))
            print(
                f"{NAMES[size]:8} nothing {turns[False].rate:8.0f}/s   "
                f"everything {turns[True].rate:8.0f}/s   "
                + "   ".join(f"{of} {ratio:.3f}" for of, ratio in found[-1].items())
            )
    for on, url in urls.items():
        use_instead(url)
        require_decided(sessions[on])
        _require_paid(sessions[on], everything=on)
    return {
        f"ratio_{of}_{NAMES[size]}": round(median(each[of] for each in found), 3) for of in found[0]
    }


def _ratios(*, nothing: "Measured", everything: "Measured") -> dict[str, float]:
    """Return the ratios of one pair: below 1 where everything is the slower side."""
    return {
        "everything": everything.rate / nothing.rate,
        "settle": nothing.settle / everything.settle,
        "dispatch": nothing.dispatch / everything.dispatch,
        "cpu": nothing.cpu / everything.cpu,
    }


def second_attempts(running: Running, count: int, size: int, *, everything: bool) -> list[UUID]:
    """Return running sessions that are the second attempts of their chains."""
    from django.db import connection

    from benchmarks.settle_client import settle

    policies = (EVERYTHING, [POLICY]) if everything else (NOTHING, [])
    first = running(count, size, *policies)
    settle(first, 100, _end(everything, 0))
    with connection.cursor() as cursor:
        cursor.execute(_RUNNING_AGAIN, [first])
        ids = [row[0] for row in cursor.fetchall()]
        cursor.execute("VACUUM ANALYZE sessions_app_session, sessions_app_retrydecision")
    if len(ids) != count:
        raise SystemExit(f"{len(ids)} second attempts were made of {count}")
    return ids


def _end(everything: bool, attempt: int) -> Any:
    from benchmarks.settle_client import END_WITH_OUTPUT, end_with_progress

    return end_with_progress(attempt) if everything else END_WITH_OUTPUT


def _require_paid(ids: list[UUID], *, everything: bool) -> None:
    """Exit unless the rule paid for all of these retries, or the inline policy for all of them."""
    from sessions_app.models import RetryDecision

    payer = f"{POLICY}/rows" if everything else FAILURE_BUDGET
    paid = RetryDecision.objects.filter(session__in=ids, paid_by=payer).count()
    if paid != len(ids):
        raise SystemExit(f"{payer} paid for {paid} retries of {len(ids)}")


def switch(on: bool) -> None:
    """Switch everything on or off that does not stand in the policies of sessions."""
    from sessions_app.models import Breaker, Queue, RetrySettings

    _suspect_node(on)
    _categories(on)
    breaker = {"chains": 20, "window": 600, "probe_after": 60} if on else None
    budget = {"ratio": 1.0, "burst": MOST_BURST} if on else None
    queue = Queue.objects.get(is_default=True)
    if on:
        _apply_policy(queue)
    queue.breaker, queue.retry_budget = breaker, budget
    queue.retry_policies = [POLICY] if on else []
    queue.save()
    project = queue.project
    for domain, own, defaults in (
        (None, None, {"breaker": breaker, "retry_budget": budget}),
        (project.domain, None, {"retry_budget": budget}),
        (None, project, {"retry_budget": budget}),
    ):
        RetrySettings.objects.update_or_create(domain=domain, project=own, defaults=defaults)
    Breaker.objects.all().delete()
    if on:
        key = f"queue:{queue.pk}"
        Breaker.objects.create(scope="cluster", signature="a" * 12, state="open")
        Breaker.objects.create(
            scope=key, project=project, queue=queue, signature="b" * 12, state="open"
        )


def _categories(there: bool) -> None:
    from sessions_app.models import FailureCategory

    FailureCategory.objects.all().delete()
    if there:
        FailureCategory.objects.bulk_create(
            FailureCategory(
                name=name,
                position=position,
                matchers=[{"onSignatureTitle": {"pattern": pattern}}],
            )
            for position, (name, pattern) in enumerate(TITLES.items())
        )


def _apply_policy(queue: Any) -> None:
    from retry.policies.documents import PolicyDocument
    from sessions_app.in_force.config_scope import ConfigScope
    from sessions_app.services.resources.policies import policy_apply

    document = PolicyDocument.model_validate(DOCUMENT)
    policy_apply(document, ConfigScope(project=queue.project), by="bench")


def _suspect_node(there: bool) -> None:
    from django.utils import timezone

    from scheduler.models import Executor, Node

    avoids = "all" if there else "off"
    executor, _ = Executor.objects.update_or_create(
        name="executor-1", defaults={"avoid_suspects": avoids}
    )
    now = timezone.now()
    until = now + timedelta(hours=1) if there else None
    Node.objects.update_or_create(
        executor=executor,
        name="node-1",
        defaults={
            "address": "executor-1/node-1",
            "suspected_at": now,
            "suspected_until": until,
            "reason": "benchmark",
            "ratio": 9.0,
        },
    )
