"""The past of a cluster: chains of sessions over tenants, queues, owners, nodes and causes.

Every value is either common or rare, whatever the number of sessions: common ones fill a page, and
rare ones belong to a few old sessions. So the same call returns the same number of rows however
large the past is.
"""

import json
from base64 import b64encode
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from benchmarks.bulk_load import loading
from benchmarks.failure_history import SIGNATURE
from retry.policies.inline import InlinePolicy, dump_stored

DAYS = 60
CHAINS_REPEAT = 16
"""Sessions after which the lengths of chains repeat: fewer would be parts of chains."""
MEMBER, ADMIN, RARE_USER = "member", "admin", "rare"
OWNERS, PROJECTS = 40, 12
_SPEC_COLUMNS = (
    "id, image, command, environ, resources, mounts, ports, labels, cluster_size, "
    "termination_grace_period, request_digest"
)
_SESSION_COLUMNS = (
    "id, spec_id, project_id, queue_id, owner_id, name, job_set, creation_id, session_type, "
    "priority, status, phase, status_message, created_at, scheduled_at, accepted_at, started_at, "
    "finished_at, exit_code, node, executor, parent_id, root_id, root_submitted_at, tip, "
    "retry_count, max_retries, retry_policy, retry_policies, retry_counters, retry_cause, "
    "failure_category, retry_state, resting, avoid_node, avoid_executors, lease_returns, "
    "report_seq, event_seq, failure_signature"
)
_DECISION_COLUMNS = (
    'session_id, state, action, reason, cause, rule, paid_by, used, "limit", delay, due_at, '
    "avoid_node, avoid_executor, termination, policy_revisions, decided_at, "
    "next_session_id, dispatched_at, dispatched_by"
)


@dataclass(frozen=True)
class Past:
    """The values to ask for."""

    tokens: dict[str, str]
    root: UUID
    """The root of a chain of six attempts that the member can see."""
    rare: UUID
    """A session that only the filters for rare values find."""
    middle: datetime

    def deep_cursor(self) -> str:
        """Return the cursor of a page in the middle: page 10,000 of a million sessions."""
        moment = f"{round(self.middle.timestamp() * 1000):012x}"
        return b64encode(f"p={UUID(moment.ljust(32, '0'))}".encode()).decode()


def load_past(url: str, count: int, *, ended: bool = False) -> Past:
    """Fill the database `url`, which Django uses, with `count` sessions in place of those there.

    With `ended`, all of them have ended; `count` is then a multiple of `CHAINS_REPEAT`.
    """
    from django.db import connection

    places = _make_tenants()
    began = round(datetime.now(UTC).timestamp()) - DAYS * 86_400
    # There are enough live and waiting sessions to fill a page, and thousands in a large past.
    unfinished = count if ended else count - max(304, count // 4_000 * 16)
    parameters = {
        "count": count,
        "began": began,
        "step": DAYS * 86_400 / count,
        "unfinished": unfinished // 16 * 16,
        "policy": dump_stored(InlinePolicy(max_retries=6, retry_delay=10.0)),
        "trace": json.dumps([{"step": "cause", "cause": "kernel_nonzero_exit"}] * 6),
        **asdict(places),
    }
    del parameters["tokens"]
    _load(url, parameters)
    with connection.cursor() as cursor:
        # A chain that the member sees and that has all its attempts.
        cursor.execute(
            "SELECT root_id FROM sessions_app_session WHERE retry_count = 5 AND project_id = %s "
            "ORDER BY id LIMIT 1",
            [places.projects[0]],
        )
        (root,) = cursor.fetchone()
    rare = UUID(f"{round((began + 16 * parameters['step']) * 1000):012x}70008000{16:012x}")
    middle = datetime.fromtimestamp(began + DAYS * 86_400 / 2, UTC)
    return Past(places.tokens, root, rare, middle)


@dataclass(frozen=True)
class _Places:
    """The keys, by the numbers with which the rows are made."""

    projects: list[int]
    queues: list[int]
    second_queues: list[int]
    rare_queue: int
    owners: list[int]
    rare_owner: int
    tokens: dict[str, str]


def _make_tenants() -> _Places:
    from django.contrib.auth.models import User

    from sessions_app.models import Domain, Membership, Project, Queue
    from sessions_app.services.access.tokens import token_create

    domains = [Domain.objects.create(name=f"domain-{n}") for n in range(3)]
    projects = [
        Project.objects.create(
            domain=domains[n % 3], name="rare" if n == PROJECTS else f"project-{n}"
        )
        for n in range(PROJECTS + 1)
    ]
    default, second = (
        [
            Queue.objects.create(project=project, name=name, is_default=name == "default").pk
            for project in projects
        ]
        for name in ("default", "large")
    )
    rare_queue = Queue.objects.create(project=projects[0], name="rare")
    people = [User.objects.create(username=f"user-{n}") for n in range(OWNERS)]
    member = User.objects.create(username=MEMBER)
    # A standalone server may have made its own.
    admin, _ = User.objects.get_or_create(username=ADMIN, defaults={"is_superuser": True})
    rare = User.objects.create(username=RARE_USER)
    for project in (projects[0], projects[5], projects[9], projects[PROJECTS]):
        Membership.objects.create(user=member, project=project, role="member")
    return _Places(
        [project.pk for project in projects],
        default,
        second,
        rare_queue.pk,
        [person.pk for person in people],
        rare.pk,
        {user.username: token_create(name="bench", user=user) for user in (member, admin)},
    )


_SESSIONS = (
    """
    SELECT id, spec, p.project_id, p.queue_id, p.owner_id, p.name, p.job_set, position,
        CASE rare WHEN 'failed' THEN 'interactive' ELSE 'batch' END, 0, e.status, e.phase, '',
        created_at, p.began, p.began, p.began, p.ended, e.exit_code, p.node, p.executor, parent_id,
        root_id, root_at, after IS NULL, attempt, 6, %(policy)s, '[]',
        CASE attempt WHEN 0 THEN '{}' ELSE format('{"inline/failure": %%s}', attempt) END,
        e.cause, e.category, e.retry_state,
        CASE WHEN e.retry_state IN ('none', 'retried') THEN '' ELSE e.retry_state END,
        '', '[]', 0, 1, 4, """
    + SIGNATURE
    + """
    FROM pg_temp.past, LATERAL (
        SELECT (%(projects)s::bigint[])[project + 1] AS project_id,
            CASE WHEN rare IN ('failed', 'cancelled') THEN %(rare_queue)s
                WHEN chain %% 4 = 0 THEN (%(second_queues)s::bigint[])[project + 1]
                ELSE (%(queues)s::bigint[])[project + 1] END AS queue_id,
            CASE WHEN rare IN ('failed', 'cancelled') THEN %(rare_owner)s
                ELSE (%(owners)s::bigint[])[owner + 1] END AS owner_id,
            CASE WHEN rare IN ('failed', 'cancelled') THEN 'needle'
                ELSE (ARRAY['train', 'eval', 'nightly'])[chain %% 3 + 1] || '-' || chain %% 5000
                END AS name,
            CASE WHEN rare IN ('failed', 'cancelled') THEN 'rare'
                WHEN chain %% 4 = 0 THEN 'sweep' ELSE '' END AS job_set,
            CASE WHEN done OR position %% 2 = 0 THEN created_at END AS began,
            CASE WHEN done THEN created_at + interval '90 s' END AS ended,
            CASE WHEN rare = 'failed' THEN 'node-rare'
                WHEN done OR position %% 2 = 0 THEN past.node ELSE '' END AS node,
            CASE WHEN rare = 'failed' THEN 'executor-rare'
                WHEN done OR position %% 2 = 0 THEN past.executor ELSE '' END AS executor,
            lpad(to_hex(block), 32, '0')::uuid AS spec
    ) p, LATERAL (VALUES
        ('failed', 'ERROR', 'final', 99, 'start_failure', 'rare', 'held'),
        ('cancelled', 'CANCELLED', 'final', NULL, 'user_cancelled', '', 'cancelled'),
        ('succeeded', 'TERMINATED', 'final', 0, '', '', 'succeeded'),
        ('error', 'ERROR', 'final', CASE WHEN luck < 10 THEN 137 ELSE 1 END,
            CASE WHEN luck < 10 THEN 'oom_killed' ELSE 'kernel_nonzero_exit' END,
            CASE WHEN position %% 2 = 0 THEN 'flaky' ELSE '' END,
            CASE WHEN after IS NULL THEN 'exhausted' ELSE 'retried' END),
        ('unfinished', CASE WHEN position %% 2 = 1 THEN 'PENDING'
            WHEN position < %(unfinished)s + 20 THEN 'TERMINATING' ELSE 'RUNNING' END,
            CASE WHEN position %% 2 = 1 THEN 'waiting' ELSE 'live' END, NULL, '', '', 'none')
    ) AS e(ending, status, phase, exit_code, cause, category, retry_state)
    WHERE e.ending = past.ending ORDER BY position
"""
)
_DECISIONS = """
    SELECT id, CASE WHEN after IS NULL THEN 'final' ELSE 'dispatched' END,
        CASE WHEN after IS NULL THEN 'fail' ELSE 'retry' END, 'inline_retry',
        'kernel_nonzero_exit', '', 'inline/failure', attempt, 6, 10, created_at, '', '',
        '{"exit_code": 1, "message": "boom", "node": "node-1"}', '{}', created_at,
        child_id, CASE WHEN after IS NOT NULL THEN created_at END, ''
    FROM pg_temp.past WHERE ending IN ('error', 'failed', 'cancelled')
"""
_TRACES = """
    SELECT id, %(trace)s FROM pg_temp.past WHERE ending IN ('error', 'failed', 'cancelled')
"""
_SPECS = """
    SELECT lpad(to_hex(block), 32, '0')::uuid, 'bench', '["true"]', '{"A": "1"}', '{"cpu": "1"}',
        '[]', '[]', '{}', 1, 30, 'bench'
    FROM generate_series(0, %(count)s) AS block
"""


def _load(url: str, parameters: dict[str, Any]) -> None:
    """Generate the rows on one connection, and copy them into the tables on another."""
    import psycopg

    beside = "sessions_app_sessionevent"
    definitions = Path(__file__).with_suffix(".sql").read_text()
    with psycopg.connect(url) as source:
        psycopg.ClientCursor(source).execute(definitions, parameters)
        for table, columns, rows in (
            ("sessions_app_session", _SESSION_COLUMNS, _SESSIONS),
            ("sessions_app_retrydecision", _DECISION_COLUMNS, _DECISIONS),
            ("sessions_app_retrytrace", "session_id, steps", _TRACES),
            ("sessions_app_sessionspec", _SPEC_COLUMNS, _SPECS),
        ):
            query = psycopg.ClientCursor(source).mogrify(rows, parameters)
            with (
                loading(table, columns, beside=beside) as target,
                source.cursor().copy(f"COPY ({query}) TO STDOUT") as made,
            ):
                for block in made:
                    target.write(block)
