"""`manage.py demo_scale`: standalone, many queues, and a storm of failures to watch."""

import json
import signal
import subprocess
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import yaml
from django.core.management.base import CommandError

from reprise.management.commands.demo import Command as DemoCommand
from reprise.management.commands.demo import environ_of
from reprise.management.commands.standalone import PROGRAM, positive
from reprise.scale import by_hand, judgement
from reprise.scale.load import connected, submit
from reprise.scale.plan import DOMAIN, PROJECTS, Plan
from reprise.scale.savings import savings
from reprise.standalone.agent import Agent
from reprise.standalone.credentials import BY, Credentials, ensure_executor_token
from reprise.standalone.server import Standalone
from scheduler.services.registration import executor_ensure
from sessions_app.locks import database_now
from sessions_app.models import Project
from sessions_app.selectors.reports import ReportWanted, retry_report
from sessions_app.services.failures.count import failures_count
from sessions_app.services.resources.tenants import project_ensure

BULK = 500
LOOK_SECONDS = 1.0
VIEW_STOP_SECONDS = 10.0
MOST_ROUNDS = 10
"""Times that people look after chains. A probe of a breaker may be under way while they do."""
COUNT_SECONDS = 120.0
"""Maximum seconds for which the report waits for its figures."""


class Command(DemoCommand):
    """Ends by itself with a judgement: exit code 1 if any chain went wrong."""

    help = "Start everything, run many sessions in many queues, show a summary, and stay up."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        for name, default, text in (
            ("queues", 50, "number of queues"),
            ("sessions", 20_000, "number of sessions, in all queues together"),
            (
                "executors",
                4,
                "number of simulated clusters; their size follows the number of sessions",
            ),
            ("patience", 900, "seconds after which an unfinished chain counts as stuck"),
        ):
            parser.add_argument(f"--{name}", type=positive, default=default, help=text)
        parser.add_argument(
            "--run-seconds", type=float, default=3.0, help="average seconds of a run"
        )
        parser.add_argument("--seed", type=int, default=1, help="seed of the random numbers")

    def handle(self, *args: Any, **options: Any) -> None:
        self._plan = Plan(
            queues=options["queues"],
            sessions=options["sessions"],
            executors=options["executors"],
            run_seconds=options["run_seconds"],
            seed=options["seed"],
        )
        self._longest_wait = options["patience"]
        self._wrong: list[str] = []
        super().handle(*args, **options)
        if self._wrong:
            raise CommandError("; ".join(self._wrong))

    def ready(self, server: Standalone, credentials: Credentials, data_dir: Path) -> bool:
        """Run the storm and sum it up. Return whether the server stays up."""
        directory = (data_dir / "scale").absolute()
        directory.mkdir(exist_ok=True)
        projects = [project_ensure(domain=DOMAIN, name=name, by=BY)[0] for name in PROJECTS]
        self._apply(credentials, directory / "queues.yaml")
        scope = judgement.Scope([each.pk for each in projects], database_now())
        self._say("Live view (Ctrl-C stops everything):")
        self.stdout.write("  $ reprise top\n")
        self.stdout.flush()
        with _view(credentials):
            acknowledged = self._submit(server, credentials)
            agents = [
                self._agent(number, name, projects, server.url, directory)
                for number, name in enumerate(self._plan.executor_names)
            ]
            documents = directory / "executors.yaml"
            documents.write_text(yaml.safe_dump_all(self._plan.executor_documents()))
            self._reprise(credentials, "apply", "-f", str(documents))
            for agent in agents:
                server.add_agent(agent)
            self._await_end(server, scope)
            self._act_by_hand(server, scope)
        self._sum_up(scope)
        self._check(scope, acknowledged)
        self._farewell(credentials, data_dir)
        return not self._exit

    def _apply(self, credentials: Credentials, path: Path) -> None:
        path.write_text(yaml.safe_dump_all(self._plan.documents(), sort_keys=False))
        factors = "priority factors 1, 2 and 4"
        self._say(f"{self._plan.queues} queues with {factors}, and retry policies:")
        self.stdout.write(f"  $ reprise apply -f {path}\n")
        self._reprise(credentials, "apply", "-f", str(path))

    def _submit(self, server: Standalone, credentials: Credentials) -> list[str]:
        """Submit all sessions in bulk, from each queue in turn. Return their ids."""
        bodies = self._plan.bodies(f"{time.time():.0f}")
        acknowledged: list[str] = []
        with connected(credentials) as connection:
            while some := list(islice(bodies, BULK)):
                acknowledged += submit(connection, credentials, some)
                server.look_after()
        return acknowledged

    def _agent(
        self, number: int, name: str, projects: Sequence[Project], url: str, directory: Path
    ) -> Agent:
        """Return the agent of a simulated cluster, and register its executor."""
        script, token = directory / f"{name}.json", directory / f"{name}.token"
        script.write_text(json.dumps(self._plan.script(number), indent=2))
        executor_ensure(name=name, projects=projects, by=BY)
        ensure_executor_token(token, name)
        options = {
            "driver": "simulated",
            "nodes": self._plan.nodes,
            "script": script,
            "seed": self._plan.seed + number,
        }
        return Agent(
            url=url,
            name=name,
            token_file=token,
            state_dir=directory / name,
            slots=self._plan.slots,
            log=directory / f"{name}.log",
            options=[f"--{option}={value}" for option, value in options.items()],
        )

    def _await_end(self, server: Standalone, scope: judgement.Scope) -> None:
        deadline = time.monotonic() + self._longest_wait
        while left := judgement.chains_left(scope):
            if time.monotonic() > deadline:
                self._wrong.append(f"{left:,} chains had not ended after {self._longest_wait} s")
                return
            server.look_after()
            time.sleep(LOOK_SECONDS)

    def _act_by_hand(self, server: Standalone, scope: judgement.Scope) -> None:
        """Do what people would, until no chain waits for them any more."""
        for _ in range(MOST_ROUNDS):
            waiting = judgement.waiting_chains(scope)
            if not waiting:
                break
            by_hand.chains_decide(waiting, self._plan, by=BY)
            self._await_end(server, scope)
        by_hand.breakers_end(scope.projects, by=BY)

    def _sum_up(self, scope: judgement.Scope) -> None:
        all_in_all = judgement.totals(scope)
        rate = all_in_all.attempts / all_in_all.seconds if all_in_all.seconds else 0.0
        self._say("What it came to:")
        self._table(
            ("sessions", "attempts", "succeeded", "exhausted", "not retried", "attempts/s"),
            [
                (
                    f"{all_in_all.sessions:,}",
                    f"{all_in_all.attempts:,}",
                    f"{all_in_all.succeeded:,}",
                    f"{all_in_all.exhausted:,}",
                    f"{all_in_all.not_retried:,}",
                    f"{rate:,.0f} in {all_in_all.seconds:.0f} s",
                )
            ],
        )
        self._say("Why attempts failed, and what became of them:")
        self._table(
            ("cause", "failed", "retried", "exhausted", "not retried"),
            [
                (row.cause, *(f"{number:,}" for number in row[1:]))
                for row in judgement.causes(scope)
            ],
        )
        self._worth(scope)
        self._say("What Reprise noticed by itself, and what that saved:")
        for saving in savings(scope):
            self.stdout.write(f"  {saving}")
        self._say("How what ran was divided, while every queue had work:")
        self._table(
            ("factor", "queues", "share", "ideal"),
            [
                (f"{row.factor:g}", str(row.queues), f"{row.share:.1%}", f"{row.ideal:.1%}")
                for row in judgement.shares(scope)
            ],
        )

    def _worth(self, scope: judgement.Scope) -> None:
        """Show the report of the days of the storm, when all that has ended is counted."""
        failures_count(seconds=COUNT_SECONDS)
        found = retry_report([*scope.projects], ReportWanted.of(database_now(), since=scope.since))
        days = f"since {found.wanted.since}, 00:00 UTC"
        self._say(f"What retries were worth ({days}): chains, and hours of run time")
        rows = [
            (row.value or "other causes" if row is not found.total else "all", row.worth)
            for row in (*found.rows, found.total)
        ]
        self._table(
            ("cause", "chains", "recovered", "given up", "rescued", "wasted", "waiting"),
            [
                (
                    name,
                    *(f"{count:,}" for count in (worth.chains, worth.recovered, worth.given_up)),
                    *(
                        f"{time / 3600:,.1f}"
                        for time in (worth.rescued, worth.wasted, worth.waiting)
                    ),
                )
                for name, worth in rows
            ],
        )

    def _table(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
        for row in (heads, *rows):
            first, *others = zip(row, widths, strict=True)
            cells = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
            self.stdout.write(f"  {'   '.join(cells)}")

    def _check(self, scope: judgement.Scope, acknowledged: Sequence[str]) -> None:
        self._wrong += judgement.astray(scope, acknowledged)
        if self._wrong:
            self.stdout.write(self.style.ERROR("\n" + "\n".join(self._wrong)))
        else:
            self._say("Every chain has ended; none is lost, and no attempt was made twice.")


@contextmanager
def _view(credentials: Credentials) -> Iterator[None]:
    """Show `reprise top` until the end of the block."""
    view = subprocess.Popen([PROGRAM, "top"], env=environ_of(credentials))
    try:
        yield
    finally:
        # SIGINT lets it restore the terminal.
        view.send_signal(signal.SIGINT)
        try:
            view.wait(VIEW_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            view.kill()
            view.wait()
