"""The server's environment variables: each is declared once and read once."""

import os
import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import dj_database_url

from loglines.lines import FORMAT, LEVEL
from podspec.specification import REFUSED
from reprise.production import problems
from reprise.worker import broker
from sessions_app.core.encryption import EncryptionKeys
from variables.kinds import (
    FLAG,
    NETWORK,
    PATH,
    PORT,
    SECRET,
    SHARE,
    Kind,
    WrongValueError,
    above_zero,
    choice,
    listed,
    matching,
    one_of,
    seconds,
    whole,
)
from variables.reading import misspelt, read, variable

NO_DATABASE = "none"
"""The value of `DATABASE_URL` for checks of the code that need no database."""
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.ASCII)
_HOST = re.compile(r"\*|\.?[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+", re.ASCII)
_ORIGIN = re.compile(r"https?://[^/\s,]+", re.ASCII)
_PROJECT = re.compile(r"[^/\s]+/[^/\s]+")
_WORD = re.compile(r"\S+")


def _database_url(text: str) -> str:
    """Return the address of a PostgreSQL. Errors show only its scheme, no password."""
    if text == NO_DATABASE:
        return text
    try:
        engine = dj_database_url.parse(text).get("ENGINE")
    except ValueError:
        engine = None
    if engine != "django.db.backends.postgresql":
        scheme = _SCHEME.match(text)
        raise WrongValueError(
            "Reprise works with PostgreSQL, and needs an address such as "
            "postgres://user:password@host:5432/name"
            + (f"; this one begins with {scheme[0]}" if scheme else "")
        )
    return text


def _broker_url(text: str) -> str:
    if refused := broker.refusal(text):
        raise WrongValueError(refused)
    return text


def _encryption_keys(text: str) -> EncryptionKeys:
    try:
        return EncryptionKeys(listed(SECRET).read(text))
    except ValueError as error:
        raise WrongValueError(str(error)) from None


DATABASE_URL = Kind(
    _database_url, "the address of a PostgreSQL, `postgres://...`", secret=True, refuses_empty=True
)
BROKER_URL = Kind(
    _broker_url, "the address of a RabbitMQ, `amqp://...`", secret=True, refuses_empty=True
)
ENCRYPTION_KEYS = Kind(
    _encryption_keys, "separated by commas, each 32 random characters or more", secret=True
)
ISOLATION = choice("on", "partly", "off")
HOST = matching(_HOST.fullmatch, "a host without scheme and port, such as reprise.example.org")
NAME = matching(_NAME.fullmatch, "a host without scheme and port, such as hooks.example.org")
ORIGIN = matching(_ORIGIN.fullmatch, "an origin such as https://reprise.example.org")
PROJECT = matching(_PROJECT.fullmatch, "a project, written domain/name")
WORD = matching(_WORD.fullmatch, "a path such as hostNetwork, without blanks")
RATE = whole()
COUNT = whole(1)
SECONDS = seconds()
SECONDS_OF_A_DAY = seconds(most=86_400)
SOME_SECONDS = above_zero("seconds")


@dataclass(frozen=True, kw_only=True)
class Server:
    """The server.

    Give every process the same ones.
    """

    production: bool = variable(
        FLAG, False, "refuse to start without what several processes must share"
    )
    database_url: str | None = variable(
        DATABASE_URL,
        None,
        "PostgreSQL",
        name="DATABASE_URL",
        absent="standalone starts its own",
    )
    database_pool: int = variable(
        COUNT, 16, "connections to PostgreSQL that one process opens at most"
    )
    broker_url: str | None = variable(
        BROKER_URL, None, "RabbitMQ", name="BROKER_URL", absent="standalone uses one in memory"
    )
    secret_key: str | None = variable(
        SECRET, None, "signs browser sessions", absent="random for each start"
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
        FLAG, False, "browsers come by HTTPS only, so that cookies are for HTTPS only"
    )
    hsts_seconds: int = variable(
        whole(most=10 * 365 * 86_400), 0, "seconds for which browsers are to insist on HTTPS"
    )
    trust_proxy: bool = variable(
        FLAG, False, "believe `X-Forwarded-Proto`, which the proxy must always set"
    )
    csrf_trusted_origins: tuple[str, ...] = variable(
        listed(ORIGIN), (), "other origins whose forms are accepted"
    )
    web_workers: int = variable(COUNT, 2, "processes of gunicorn")
    metrics_token: str = variable(
        SECRET, "", "reads `/metrics`, beside the tokens of cluster admins", absent="none"
    )
    metrics_port: int | None = variable(
        PORT, None, "port at which a worker answers `/metrics`", absent="nowhere"
    )
    metrics_dir: Path | None = variable(
        PATH, None, "directory in which processes of one family count", absent="a new one"
    )
    log_format: str | None = variable(
        FORMAT, None, "how lines are written", absent="`json` in production, else `console`"
    )
    log_level: str | None = variable(
        LEVEL,
        None,
        "the least level that is logged",
        absent="`WARNING`; gunicorn's own lines: `INFO`",
    )
    isolate_runs: str = variable(ISOLATION, "off", "isolation of the runs of standalone's executor")
    default_project: str | None = variable(
        PROJECT,
        None,
        "project of calls that name none",
        absent="they must; in standalone `default/default`",
    )
    pod_fields_allowed: tuple[str, ...] = variable(
        listed(one_of(REFUSED, "a field of a `pod_spec` that is refused (docs/pods.md)")),
        (),
        "fields of a `pod_spec` that are not to be refused",
    )
    pod_fields_refused: tuple[str, ...] = variable(
        listed(WORD), (), "fields of a `pod_spec` to refuse beside the usual ones"
    )
    webhook_allowed_networks: tuple[str, ...] = variable(
        listed(NETWORK), (), "networks that webhooks may reach though they are not public"
    )
    webhook_allowed_hosts: tuple[str, ...] = variable(
        listed(NAME), (), "names that webhooks may reach wherever they lead"
    )
    webhook_allow_http: bool = variable(FLAG, False, "webhooks may go to `http://`, too")
    graphql_introspection: bool = variable(
        FLAG, True, "whether anybody can ask `/graphql/` what its schema is"
    )
    graphiql: bool = variable(
        FLAG, True, "whether `/graphql/` has a page on which queries can be tried"
    )


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """Times, limits and sizes.

    The server has them as `settings.REPRISE`, by the names of these fields.
    """

    lease_ttl: float = variable(
        SOME_SECONDS, 300.0, "seconds for which an executor that is not heard keeps its runs"
    )
    lease_grace: float = variable(SECONDS, 60.0, "seconds after that until its runs count as lost")
    acceptance_timeout: float = variable(
        SOME_SECONDS, 60.0, "seconds after which a lease that nobody accepted is queued again"
    )
    max_lease_returns: int = variable(
        COUNT, 5, "leases of a session that may come back before it fails"
    )
    unconfirmed_after: float = variable(
        SECONDS, 600.0, "seconds for which the end of a cancelled run is waited for"
    )
    executor_late_after: float = variable(
        SOME_SECONDS, 30.0, "seconds of silence after which an executor is told to be late"
    )
    executor_stale_after: float = variable(
        SOME_SECONDS, 60.0, "seconds of silence after which an executor gets no new leases"
    )
    priority_half_time: float = variable(
        SOME_SECONDS, 300.0, "seconds in which a queue's priority goes half of the way to its cost"
    )
    retry_share: float = variable(
        SHARE, 0.5, "share of what a queue holds that retries may have while fresh sessions wait"
    )
    starved_after: float = variable(
        SECONDS, 300.0, "seconds after which nodes are kept free for a session that waits for room"
    )
    start_check_first: float = variable(
        SECONDS, 30.0, "seconds from a pod's creation to its first check"
    )
    start_check_again: float = variable(SOME_SECONDS, 30.0, "seconds to the next check")
    start_check_step: float = variable(
        SECONDS, 10.0, "seconds by which that grows with each check of a pod that initializes"
    )
    start_check_longest: float = variable(SECONDS, 80.0, "seconds up to which it grows")
    scheduling_timeout: float = variable(
        SECONDS,
        180.0,
        "seconds that a pod may stay without a node, if its session does not say; 0: for ever",
    )
    initializing_timeout: float = variable(
        SECONDS,
        1800.0,
        "seconds that it may then stay without its images or containers; 0: for ever",
    )
    missing_pod_checks: int = variable(
        COUNT, 3, "checks that look for a pod that its cluster does not show"
    )
    log_cap_bytes: int = variable(
        whole(), 12 * 1024 * 1024, "bytes of the beginning of a run's output that its log keeps"
    )
    log_tail_bytes: int = variable(
        whole(), 4 * 1024 * 1024, "bytes of the end of a longer output that its log keeps"
    )
    session_retention: float = variable(
        SECONDS,
        90 * 86_400.0,
        "seconds for which a chain and its logs stay in the tables after its end; 0: for ever",
    )
    event_retention: float = variable(
        SECONDS, 365 * 86_400.0, "seconds for which its events stay after that; 0: for ever"
    )
    automatic_audit_retention: float = variable(
        SECONDS,
        365 * 86_400.0,
        "seconds for which the audit log tells of an automatic retry; 0: for ever",
    )
    stream_check_after: float = variable(
        SECONDS, 60.0, "seconds after which a follower of events is asked again whether it may"
    )
    webhook_pause_failures: int = variable(
        COUNT, 15, "failed attempts in a row after which a webhook is paused"
    )
    webhook_pause_after: float = variable(
        SECONDS, 86_400.0, "seconds for which they must have gone on"
    )
    webhook_delivery_retention: float = variable(
        SECONDS,
        30 * 86_400.0,
        "seconds for which a delivery stays in its webhook's log after its end; 0: for ever",
    )
    webhook_senders: int = variable(COUNT, 1, "tasks that send webhooks at once, over all workers")
    body_timeout: float = variable(
        SOME_SECONDS, 30.0, "seconds in which a body must be whole, at a front"
    )
    long_body_timeout: float = variable(
        SOME_SECONDS, 120.0, "the same for executors, bulk calls and simulations"
    )
    body_grace: float = variable(
        SECONDS, 10.0, "seconds after which a body must keep its speed, at a front"
    )
    body_bytes_per_second: float = variable(
        above_zero("bytes", 1_000_000_000), 1000.0, "the least speed of a body, at a front"
    )
    unfinished_bodies: int = variable(COUNT, 256, "unfinished bodies of one front")
    unfinished_bodies_per_address: int = variable(
        COUNT, 16, "unfinished bodies of one front from one address"
    )
    login_failures: int = variable(
        COUNT, 10, "wrong passwords of a user, or from an address, after which none is looked at"
    )
    login_cool_off: float = variable(SOME_SECONDS, 900.0, "seconds for which that lasts")
    worker_stuck_after: float = variable(
        SOME_SECONDS,
        60.0,
        "seconds after which a worker that does nothing, while the broker answers, is started anew",
    )
    sweep_taken_within: float = variable(
        SECONDS, 10.0, "seconds after which beat runs a sweep of deadlines that no worker began"
    )
    sweep_standby_every: float = variable(SOME_SECONDS, 5.0, "seconds after which it does so again")
    call_statement_timeout: float = variable(
        SECONDS_OF_A_DAY, 30.0, "seconds that a statement of a call may take; 0: for ever"
    )
    call_lock_timeout: float = variable(
        SECONDS_OF_A_DAY, 5.0, "seconds that a call may wait for a lock; 0: for ever"
    )
    token_requests_per_minute: int = variable(
        RATE, 60_000, "calls a minute of one token; 0: no limit"
    )
    anonymous_requests_per_minute: int = variable(
        RATE, 6_000, "calls a minute of one address without a valid token; 0: no limit"
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
