"""The server's environment variables: each is declared once and read once."""

import os
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from base.loglines.lines import FORMAT, LEVEL
from base.podspec.specification import REFUSED
from base.variables.kinds import (
    FLAG,
    NETWORK,
    PATH,
    PORT,
    SECRET,
    SHARE,
    above_zero,
    choice,
    listed,
    one_of,
    whole,
)
from base.variables.reading import misspelt, read, variable
from reprise.kinds import (
    BROKER_URL,
    COUNT,
    DATABASE_URL,
    ENCRYPTION_KEYS,
    HOST,
    ISOLATION,
    NAME,
    ORIGIN,
    PROJECT,
    RATE,
    SECONDS,
    SECONDS_OF_A_DAY,
    SOME_SECONDS,
    WORD,
)
from reprise.production import problems
from sessions_app.core.encryption import EncryptionKeys


@dataclass(frozen=True, kw_only=True)
class Server:
    """The server.

    Give every process the same values.
    """

    production: bool = variable(
        FLAG, False, "refuse to start if a setting that several processes must share is missing"
    )
    database_url: str | None = variable(
        DATABASE_URL,
        None,
        "the PostgreSQL of the server",
        name="DATABASE_URL",
        absent="standalone starts its own",
    )
    database_pool: int = variable(COUNT, 16, "the most connections to PostgreSQL of one process")
    broker_url: str | None = variable(
        BROKER_URL,
        None,
        "the RabbitMQ of the server",
        name="BROKER_URL",
        absent="standalone uses one in memory",
    )
    secret_key: str | None = variable(
        SECRET, None, "the key that signs browser sessions", absent="random for each start"
    )
    encryption_keys: EncryptionKeys | None = variable(
        ENCRYPTION_KEYS,
        None,
        "keys of stored secrets, newest first",
        absent="random for each start; standalone keeps its own",
    )
    allowed_hosts: tuple[str, ...] = variable(
        listed(HOST),
        ("localhost", "127.0.0.1", "[::1]"),
        "hosts under which the server answers",
    )
    https: bool = variable(
        FLAG, False, "browsers use HTTPS only; cookies are then sent over HTTPS only"
    )
    hsts_seconds: int = variable(
        whole(most=10 * 365 * 86_400),
        0,
        "seconds for which a browser that came once uses HTTPS only (HSTS); 0: not sent",
    )
    trusted_proxies: tuple[str, ...] = variable(
        listed(NETWORK),
        (),
        "addresses of proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed",
    )
    csrf_trusted_origins: tuple[str, ...] = variable(
        listed(ORIGIN), (), "other origins from which forms are accepted"
    )
    web_workers: int = variable(COUNT, 2, "processes of gunicorn")
    metrics_token: str = variable(
        SECRET,
        "",
        "a token that may read `/metrics`, as tokens of cluster admins may",
        absent="none",
    )
    metrics_port: int | None = variable(
        PORT, None, "port at which a worker answers `/metrics`", absent="nowhere"
    )
    metrics_dir: Path | None = variable(
        PATH,
        None,
        "directory for the metrics that the processes of one server share",
        absent="a new one",
    )
    log_format: str | None = variable(
        FORMAT, None, "format of log lines", absent="`json` in production, else `console`"
    )
    log_level: str | None = variable(
        LEVEL,
        None,
        "lowest level that is logged",
        absent="`WARNING`; gunicorn's own lines: `INFO`",
    )
    preemption: str = variable(
        choice("off", "dry_run", "on"),
        "off",
        "whether running sessions make room for others; dry_run only records which would "
        "(docs/preemption.md)",
    )
    isolate_runs: str = variable(ISOLATION, "off", "isolation of the runs of standalone's executor")
    default_project: str | None = variable(
        PROJECT,
        None,
        "project of calls that name no project",
        absent="none: calls must name one; in standalone `default/default`",
    )
    pod_fields_allowed: tuple[str, ...] = variable(
        listed(one_of(REFUSED, "a field of a `pod_spec` that is refused (docs/pods.md)")),
        (),
        "fields of a `pod_spec` that are allowed although they are refused by default",
    )
    pod_fields_refused: tuple[str, ...] = variable(
        listed(WORD), (), "additional fields of a `pod_spec` to refuse"
    )
    webhook_allowed_networks: tuple[str, ...] = variable(
        listed(NETWORK), (), "networks that webhooks may reach although they are not public"
    )
    webhook_allowed_hosts: tuple[str, ...] = variable(
        listed(NAME), (), "hosts that webhooks may reach whatever their address is"
    )
    webhook_allow_http: bool = variable(FLAG, False, "webhooks may also use `http://`")
    graphql_introspection: bool = variable(
        FLAG, True, "whether `/graphql/` answers introspection queries"
    )
    graphiql: bool = variable(
        FLAG, True, "whether `/graphql/` shows browsers a page to try queries"
    )
    style_page: bool = variable(
        FLAG, False, "whether `/style/` shows every part of the web pages, for developers"
    )


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """Times, limits and sizes.

    The server has them as `settings.REPRISE`, by the names of these fields.
    """

    lease_ttl: float = variable(
        SOME_SECONDS, 300.0, "seconds that a lease lasts after the last heartbeat of its executor"
    )
    lease_grace: float = variable(
        SECONDS, 60.0, "seconds from the end of a lease until its run counts as lost"
    )
    acceptance_timeout: float = variable(
        SOME_SECONDS,
        60.0,
        "seconds after which a lease that its executor did not accept is taken back",
    )
    max_lease_returns: int = variable(
        COUNT, 5, "leases of a session that executors may return before the session fails"
    )
    unconfirmed_after: float = variable(
        SECONDS,
        600.0,
        "seconds after which a lost run counts as ended without confirmation; 0: never",
    )
    executor_late_after: float = variable(
        SOME_SECONDS, 30.0, "seconds without a heartbeat after which an executor counts as late"
    )
    executor_stale_after: float = variable(
        SOME_SECONDS, 60.0, "seconds without a heartbeat after which an executor gets no new leases"
    )
    priority_half_time: float = variable(
        SOME_SECONDS, 300.0, "half-life, in seconds, of a queue's past usage in its priority"
    )
    retry_share: float = variable(
        SHARE, 0.5, "share of a queue's usage that retries may take while first attempts wait"
    )
    starved_after: float = variable(
        SECONDS, 300.0, "seconds that a session waits for room before nodes are kept free for it"
    )
    preempt_after: float = variable(
        SECONDS, 30.0, "seconds that a session waits before lower priority classes make room for it"
    )
    reclaim_below: float = variable(
        SHARE, 0.8, "part of its share below which a queue with waiting work takes room back"
    )
    reclaim_after: float = variable(
        SECONDS, 120.0, "seconds for which a queue must hold less than that"
    )
    preempt_rate: float = variable(
        SHARE, 0.05, "part of an executor's sessions that make room within a minute at most"
    )
    start_check_first: float = variable(
        SECONDS, 30.0, "seconds from a pod's creation to its first check"
    )
    start_check_again: float = variable(
        SOME_SECONDS, 30.0, "seconds from each check to the next one"
    )
    start_check_step: float = variable(
        SECONDS,
        10.0,
        "seconds by which this interval grows with each check of a pod that initializes",
    )
    start_check_longest: float = variable(
        SECONDS, 80.0, "longest interval between two checks, in seconds"
    )
    scheduling_timeout: float = variable(
        SECONDS,
        180.0,
        "seconds that a pod may stay without a node, unless its session sets its own limit; 0: no "
        "limit",
    )
    scale_up_timeout: float = variable(
        SECONDS,
        600.0,
        "seconds that a pod may stay without a node if its cluster has to add one of a node "
        "template, or more if the other limit is longer; 0: no limit",
    )
    initializing_timeout: float = variable(
        SECONDS,
        1800.0,
        "seconds that a pod with a node may stay without its images or containers; 0: no limit",
    )
    missing_pod_checks: int = variable(
        COUNT, 3, "checks that find no readable pod before the session fails"
    )
    log_cap_bytes: int = variable(
        whole(), 12 * 1024 * 1024, "bytes that a log keeps from the start of a run's output"
    )
    log_tail_bytes: int = variable(
        whole(), 4 * 1024 * 1024, "bytes that a log keeps from the end of a longer output"
    )
    session_retention: float = variable(
        SECONDS,
        90 * 86_400.0,
        "seconds from the end of a chain until it is archived and its logs are deleted; 0: never",
    )
    event_retention: float = variable(
        SECONDS, 365 * 86_400.0, "seconds from then until its events are deleted; 0: never"
    )
    automatic_audit_retention: float = variable(
        SECONDS,
        365 * 86_400.0,
        "seconds that the audit log keeps automatic retries; 0: for ever",
    )
    record_retention: float = variable(
        SECONDS,
        365 * 86_400.0,
        "seconds that closed breakers, handled parked tasks, replaced revisions of policies and "
        "the log of the admin are kept; 0: for ever",
    )
    stream_check_after: float = variable(
        SECONDS,
        60.0,
        "seconds between two checks of the rights of those who follow an event stream",
    )
    webhook_pause_failures: int = variable(
        COUNT, 15, "failed attempts in a row that pause a webhook"
    )
    webhook_pause_after: float = variable(
        SECONDS, 86_400.0, "least seconds for which these failures must have lasted"
    )
    webhook_delivery_retention: float = variable(
        SECONDS,
        30 * 86_400.0,
        "seconds that a delivery is kept after its end; 0: for ever",
    )
    webhook_senders: int = variable(
        COUNT, 1, "tasks that send webhooks at the same time, over all workers"
    )
    head_timeout: float = variable(
        SOME_SECONDS, 10.0, "seconds in which a request's head must arrive at a front"
    )
    unfinished_heads_per_address: int = variable(
        COUNT,
        64,
        "the most heads that one address leaves unfinished at one front for longer than a second",
    )
    body_timeout: float = variable(
        SOME_SECONDS, 30.0, "seconds in which a request's body must arrive at a front"
    )
    long_body_timeout: float = variable(
        SOME_SECONDS, 120.0, "the same for calls of executors, bulk calls and simulations"
    )
    body_grace: float = variable(SECONDS, 10.0, "seconds before the lowest speed of a body applies")
    body_bytes_per_second: float = variable(
        above_zero("bytes", 1_000_000_000),
        1000.0,
        "lowest speed of a body that a front accepts, in bytes per second",
    )
    unfinished_bodies: int = variable(COUNT, 256, "the most unfinished bodies at one front")
    unfinished_bodies_per_address: int = variable(
        COUNT, 16, "the most unfinished bodies at one front from one address"
    )
    large_body_bytes: int = variable(
        COUNT,
        192 * 1024 * 1024,
        "the most bytes of bodies above 64 KiB that one front holds until their calls are answered",
    )
    large_body_bytes_per_caller: int = variable(
        COUNT, 64 * 1024 * 1024, "the same of one user or executor"
    )
    login_failures: int = variable(
        COUNT, 10, "wrong passwords of a user, or from an address, after which logins are refused"
    )
    login_cool_off: float = variable(
        SOME_SECONDS, 900.0, "seconds for which logins are then refused"
    )
    worker_stuck_after: float = variable(
        SOME_SECONDS,
        60.0,
        "seconds without a look at the broker after which a worker is restarted; the broker must "
        "answer",
    )
    sweep_taken_within: float = variable(
        SECONDS, 10.0, "seconds after which beat itself runs a sweep that no worker started"
    )
    sweep_standby_every: float = variable(SOME_SECONDS, 5.0, "seconds between two such runs")
    call_statement_timeout: float = variable(
        SECONDS_OF_A_DAY,
        30.0,
        "longest time of an SQL statement of a call, in seconds; 0: no limit",
    )
    call_lock_timeout: float = variable(
        SECONDS_OF_A_DAY,
        5.0,
        "longest time that a call waits for a database lock, in seconds; 0: no limit",
    )
    token_requests_per_minute: int = variable(
        RATE, 60_000, "calls per minute with one token; 0: no limit"
    )
    anonymous_requests_per_minute: int = variable(
        RATE, 6_000, "calls per minute from one address without a valid token; 0: no limit"
    )


@dataclass(frozen=True, kw_only=True)
class Environment(Numbers, Server):
    """All variables that the server reads."""


@cache
def given() -> Environment:
    """Return the variables of the environment; end the process if one is wrong.

    Each wrong variable gets one line on stderr: an exception would bury them in a traceback.
    """
    found, wrong = read(Environment, os.environ)
    if found.production and (missing := problems(os.environ)):
        wrong.append(f"Reprise does not start: {'; '.join(missing)} (docs/production.md)")
    if wrong:
        raise SystemExit("\n".join(wrong))
    for line in misspelt(Environment, os.environ):
        sys.stderr.write(f"{line}\n")
    return found
