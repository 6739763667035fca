"""Every setting, in one file; what differs between places comes from the environment.

| variable | what |
| --- | --- |
| `DATABASE_URL` | PostgreSQL; standalone starts its own when it is absent |
| `BROKER_URL` | RabbitMQ (`amqp://`); standalone uses one in memory when it is absent |
| `REPRISE_SECRET_KEY` | signs browser sessions; random for each start when it is absent |
| `REPRISE_ENCRYPTION_KEYS` | keys of stored secrets, newest first, by commas; random if absent |
| `REPRISE_ALLOWED_HOSTS` | names under which the server answers, comma separated |
| `REPRISE_PRODUCTION` | `1`: refuse to start without what several processes must share |
| `REPRISE_HTTPS` | `1`: browsers come by HTTPS only, so that cookies are for HTTPS only |
| `REPRISE_HSTS_SECONDS` | how long browsers are to insist on HTTPS; 0 when it is absent |
| `REPRISE_TRUST_PROXY` | `1`: believe `X-Forwarded-Proto`, which the proxy must always set |
| `REPRISE_CSRF_TRUSTED_ORIGINS` | other origins whose forms are accepted, comma separated |
| `REPRISE_DATABASE_POOL` | connections to PostgreSQL that one process opens at most; 16 |
| `REPRISE_METRICS_TOKEN` | reads `/metrics`, beside the tokens of cluster admins |
| `REPRISE_METRICS_PORT` | where a worker answers `/metrics`; nowhere when it is absent |
| `REPRISE_METRICS_DIR` | where processes of one family count; a new directory when absent |
| `REPRISE_LOG_FORMAT` | `json` or `console`; JSON in production when it is absent |
| `REPRISE_LOG_LEVEL` | the least level that is logged; WARNING when it is absent |
| `REPRISE_ISOLATE_RUNS` | of standalone's executor: `on`, `partly` or `off`; off when absent |
| `REPRISE_DEFAULT_PROJECT` | `domain/name` for calls that name no project |
| `REPRISE_POD_FIELDS_ALLOWED` | fields of a `pod_spec` that are not to be refused, by commas |
| `REPRISE_POD_FIELDS_REFUSED` | fields of a `pod_spec` to refuse beside the usual ones, by commas |
| `REPRISE_WEBHOOK_ALLOWED_NETWORKS` | networks that webhooks may reach though they are not public |
| `REPRISE_WEBHOOK_ALLOWED_HOSTS` | names that webhooks may reach wherever they lead |
| `REPRISE_WEBHOOK_ALLOW_HTTP` | `1`: webhooks may go to `http://`, too |
| `REPRISE_GRAPHQL_INTROSPECTION` | `0`: nobody can ask `/graphql/` what its schema is |
| `REPRISE_GRAPHIQL` | `0`: no page to try queries with at `/graphql/` |
| `REPRISE_LEASE_TTL` ... | each number of `REPRISE` below, by its name in capitals |
"""

import os
import secrets
from datetime import timedelta
from pathlib import Path

import dj_database_url

from loglines import lines
from podspec.specification import refused_paths
from reprise.production import problems
from sessions_app.encryption import EncryptionKeys
from sessions_app.webhook_guard import Guard

BASE_DIR = Path(__file__).resolve().parent.parent


def flag(name: str, default: str = "") -> bool:
    """Whether a variable says yes."""
    return os.environ.get(name, default).lower() in {"1", "true", "yes", "on"}


def listed(name: str, default: str = "") -> list[str]:
    """The comma separated values of a variable."""
    return [value.strip() for value in os.environ.get(name, default).split(",") if value.strip()]


if flag("REPRISE_PRODUCTION") and (wrong := problems(os.environ)):
    # One line for whoever starts it; an exception would bury it in a traceback.
    raise SystemExit(f"Reprise does not start: {'; '.join(wrong)} (docs/production.md)")

SECRET_KEY = os.environ.get("REPRISE_SECRET_KEY") or secrets.token_urlsafe(48)
_keys = listed("REPRISE_ENCRYPTION_KEYS")
try:
    ENCRYPTION_KEYS = EncryptionKeys(_keys or [secrets.token_urlsafe(48)], made_up=not _keys)
except ValueError as error:
    raise SystemExit(f"REPRISE_ENCRYPTION_KEYS: {error}") from None
DEBUG = False
ALLOWED_HOSTS = listed("REPRISE_ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")

SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = flag("REPRISE_HTTPS")
SECURE_HSTS_SECONDS = int(os.environ.get("REPRISE_HSTS_SECONDS", "0"))
SECURE_PROXY_SSL_HEADER = (
    ("HTTP_X_FORWARDED_PROTO", "https") if flag("REPRISE_TRUST_PROXY") else None
)
CSRF_TRUSTED_ORIGINS = listed("REPRISE_CSRF_TRUSTED_ORIGINS")

INSTALLED_APPS = [
    "unfold.apps.BasicAppConfig",
    "unfold.contrib.filters",
    "reprise.site_config.OperatorsConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_celery_beat",
    "axes",
    "sessions_app",
    "scheduler",
    "reprise",
]

MIDDLEWARE = [
    "reprise.request_log.RequestLog",
    "reprise.page_security.PageSecurity",
    "reprise.call_limits.CallLimits",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "reprise.hosts.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "sessions_app.doors.DoorMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "axes.middleware.AxesMiddleware",
]

ROOT_URLCONF = "reprise.urls"
WSGI_APPLICATION = "reprise.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]


POOL_SIZE = int(os.environ.get("REPRISE_DATABASE_POOL", "16"))


def database(url: str, pool_size: int = POOL_SIZE) -> dict[str, object]:
    """Django's settings for one PostgreSQL."""
    if url == "none":  # for checks of the code that need no database
        return {"ENGINE": "django.db.backends.dummy"}
    try:
        found = dj_database_url.parse(url, conn_health_checks=True)
    except ValueError:
        found = {}
    if found.get("ENGINE") != "django.db.backends.postgresql":
        # The address may hold a password, so that only its beginning is repeated.
        raise SystemExit(
            "DATABASE_URL: Reprise works with PostgreSQL, and needs an address such as "
            f"postgres://user:password@host:5432/name, not {url.partition(':')[0]!r}"
        )
    soon = {
        # A server that is gone without a word is noticed, and one that is back is soon connected.
        "connect_timeout": 3,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 15_000,
    }
    options = {
        # A pool hands connections back after each request; Django's own reuse would defeat it.
        "pool": {"min_size": 1, "max_size": pool_size, "timeout": 10},
        # The hot statements are few and always the same: parsed and planned once a connection.
        "server_side_binding": True,
        "prepare_threshold": 3,
    }
    return {
        **found,
        "ENGINE": "reprise.postgresql",
        "CONN_MAX_AGE": 0,
        "OPTIONS": {**soon, **found.get("OPTIONS", {}), **options},
    }


DATABASES = {"default": database(os.environ.get("DATABASE_URL", "postgres:///reprise"))}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

_VALIDATORS = "django.contrib.auth.password_validation."
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": _VALIDATORS + "UserAttributeSimilarityValidator"},
    {"NAME": _VALIDATORS + "MinimumLengthValidator"},
    {"NAME": _VALIDATORS + "CommonPasswordValidator"},
    {"NAME": _VALIDATORS + "NumericPasswordValidator"},
]
# The first one counts wrong passwords, and refuses whoever had too many.
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
]
LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/login/"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = False
USE_TZ = True
STATIC_URL = "/static/"
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = False

# One wire limit for people, larger ones for executors and bulk calls; checked before reading.
DATA_UPLOAD_MAX_MEMORY_SIZE = 16 * 1024 * 1024
BODY_LIMIT_BYTES = 1024 * 1024
EXECUTOR_BODY_LIMIT_BYTES = 16 * 1024 * 1024
BULK_BODY_LIMIT_BYTES = 16 * 1024 * 1024

# Every asset is vendored with the theme; light or dark is what the browser prefers.
UNFOLD = {
    "SITE_TITLE": "Reprise",
    "SITE_HEADER": "Reprise",
    "SITE_SUBHEADER": "operators",
    "SITE_SYMBOL": "replay",
    "SITE_FAVICONS": [
        {"rel": "icon", "type": "image/svg+xml", "href": f"{STATIC_URL}reprise/favicon.svg"}
    ],
    "STYLES": [f"{STATIC_URL}reprise/admin.css"],
    "SCRIPTS": [f"{STATIC_URL}reprise/admin.js"],
    "SHOW_BACK_BUTTON": True,
    "DASHBOARD_CALLBACK": "reprise.dashboard.dashboard",
    "SIDEBAR": {"navigation": "reprise.dashboard.navigation"},
}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["sessions_app.api.authentication.TokenAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["sessions_app.api.authentication.IsActor"],
    "DEFAULT_PARSER_CLASSES": ["sessions_app.api.parsing.StrictJSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["sessions_app.api.rendering.FastJSONRenderer"],
    "DEFAULT_THROTTLE_CLASSES": ["sessions_app.api.throttling.TokenThrottle"],
    "DEFAULT_SCHEMA_CLASS": "sessions_app.api.openapi.RepriseSchema",
    "EXCEPTION_HANDLER": "sessions_app.api.problems.exception_handler",
    # What OPTIONS would tell is in the OpenAPI document: it is a 405.
    "DEFAULT_METADATA_CLASS": None,
    "UNAUTHENTICATED_USER": None,
    "UNICODE_JSON": True,
    # What an answer is made of is said by `Accept` alone.
    "URL_FORMAT_OVERRIDE": None,
}

SPECTACULAR_SETTINGS = {
    "TITLE": "Reprise",
    "DESCRIPTION": "Runs batch sessions on many clusters and brings failed ones back by policy.",
    "VERSION": "2",
    "OAS_VERSION": "3.1.1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["sessions_app.api.authentication.IsActorOrBrowserUser"],
    "SERVE_AUTHENTICATION": [
        "sessions_app.api.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SCHEMA_PATH_PREFIX": "/api/v2",
    "COMPONENT_SPLIT_REQUEST": True,
    "POSTPROCESSING_HOOKS": ["sessions_app.api.openapi.add_problem_responses"],
}

CELERY_BROKER_URL = os.environ.get("BROKER_URL", "memory://localhost//")
CELERY_BEAT_SCHEDULER = "reprise.beat:LockedScheduler"

try:
    LOG_FORMAT = lines.wanted_format(os.environ)
except ValueError as error:
    raise SystemExit(str(error)) from None
LOGGING_CONFIG = "loglines.lines.configure"
LOGGING = lines.configuration(
    LOG_FORMAT,
    os.environ.get("REPRISE_LOG_LEVEL", "WARNING"),
    **{
        # A 4xx is the caller's business, and a line of `reprise.requests`.
        "django.request": "ERROR",
        # Two lines for each task, which the metrics count.
        "celery.worker.strategy": "WARNING",
        "celery.app.trace": "WARNING",
    },
)

REPRISE_METRICS_TOKEN = os.environ.get("REPRISE_METRICS_TOKEN", "")
REPRISE_DEFAULT_PROJECT = os.environ.get("REPRISE_DEFAULT_PROJECT")
REPRISE_ISOLATE_RUNS = os.environ.get("REPRISE_ISOLATE_RUNS") or "off"
# As whom runs act that are not isolated; set by standalone, whose executor they belong to.
REPRISE_RUNS_AS = ""
REPRISE_GRAPHQL_INTROSPECTION = flag("REPRISE_GRAPHQL_INTROSPECTION", "1")
REPRISE_GRAPHIQL = flag("REPRISE_GRAPHIQL", "1")
# Seconds, numbers and bytes.
REPRISE: dict[str, float] = {
    "lease_ttl": 300.0,
    "lease_grace": 60.0,
    # A lease that nobody accepted for this long goes back to its queue.
    "acceptance_timeout": 60.0,
    "max_lease_returns": 5,
    "unconfirmed_after": 600.0,
    # An executor that was silent for this long is late, which is told; after the longer time it
    # gets no new leases.
    "executor_late_after": 30.0,
    "executor_stale_after": 60.0,
    # A queue's current priority goes half of the way to its cost in this time.
    "priority_half_time": 300.0,
    # What retries may have of what their queue holds, while fresh sessions wait there.
    "retry_share": 0.5,
    # A session that has waited so long for room has nodes kept free for it.
    "starved_after": 300.0,
    # Whether a pod has started is looked at so long after its creation and then again and again;
    # while it initializes each time a step later, up to the longest.
    "start_check_first": 30.0,
    "start_check_again": 30.0,
    "start_check_step": 10.0,
    "start_check_longest": 80.0,
    # So long a pod may be without a node, unless its session says otherwise, and then be without
    # its images or containers. 0: for ever.
    "scheduling_timeout": 180.0,
    "initializing_timeout": 1800.0,
    # So many checks look for a pod that its cluster does not show.
    "missing_pod_checks": 3,
    # Of a run's output its log has so much of the beginning, and if it is longer, of the end.
    "log_cap_bytes": 12 * 1024 * 1024,
    "log_tail_bytes": 4 * 1024 * 1024,
    # So long after its end a chain goes from the tables into the log, with the logs of its runs;
    # so long after that its events go, too. 0: never.
    "session_retention": 90 * 86_400.0,
    "event_retention": 365 * 86_400.0,
    # So long the audit log tells of a retry that the engine brought. 0: for ever.
    "automatic_audit_retention": 365 * 86_400.0,
    # Whoever follows events is asked this often whether they still may.
    "stream_check_after": 60.0,
    # A webhook is paused when so many attempts in a row have failed, for so long.
    "webhook_pause_failures": 15,
    "webhook_pause_after": 86_400.0,
    # So long after its end a delivery stays in the log of its webhook. 0: for ever.
    "webhook_delivery_retention": 30 * 86_400.0,
    # Tasks that send webhooks at once, over all workers.
    "webhook_senders": 1,
    # The front ends a body that is not whole in this time (the longer one is for executors, bulk
    # calls and simulations), or brings fewer bytes a second after the first seconds.
    "body_timeout": 30.0,
    "long_body_timeout": 120.0,
    "body_grace": 10.0,
    "body_bytes_per_second": 1000.0,
    # So many bodies may be unfinished in one front, in all and from one address.
    "unfinished_bodies": 256,
    "unfinished_bodies_per_address": 16,
    # After so many wrong passwords of one user, or from one address, no password is looked at
    # for so long.
    "login_failures": 10,
    "login_cool_off": 900.0,
    # A worker that did nothing for this long, beside a broker that answers, is started anew.
    "worker_stuck_after": 60.0,
    # A sweep of deadlines that no worker has begun within the first time runs in beat, and does so
    # again each time that the second has passed.
    "sweep_taken_within": 10.0,
    "sweep_standby_every": 5.0,
    # So long a statement of a call may take, and wait for a lock; then the call is a 503. 0: for
    # ever. Tasks, commands and migrations have no such limits.
    "call_statement_timeout": 30.0,
    "call_lock_timeout": 5.0,
    # Calls a minute of one token, and of one address without a valid token; 0: no limit. The
    # executors' wire has none.
    "token_requests_per_minute": 60_000,
    "anonymous_requests_per_minute": 6_000,
}
REPRISE = {
    name: type(default)(os.environ.get(f"REPRISE_{name.upper()}", default))
    for name, default in REPRISE.items()
}

AXES_LOCKOUT_PARAMETERS = ["username", "ip_address"]
AXES_FAILURE_LIMIT = int(REPRISE["login_failures"])
AXES_COOLOFF_TIME = timedelta(seconds=REPRISE["login_cool_off"])
# Whoever goes on trying would keep the user out for ever.
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_CLIENT_IP_CALLABLE = "sessions_app.addresses.request_address"
AXES_LOCKOUT_CALLABLE = "reprise.locked_out.locked_out"
AXES_DISABLE_ACCESS_LOG = True
AXES_ENABLE_ADMIN = False
AXES_VERBOSE = False

try:
    POD_FIELDS_REFUSED = refused_paths(
        listed("REPRISE_POD_FIELDS_ALLOWED"), listed("REPRISE_POD_FIELDS_REFUSED")
    )
except ValueError as error:
    raise SystemExit(f"REPRISE_POD_FIELDS_ALLOWED: {error}") from None

try:
    WEBHOOK_GUARD = Guard.of(
        listed("REPRISE_WEBHOOK_ALLOWED_NETWORKS"),
        listed("REPRISE_WEBHOOK_ALLOWED_HOSTS"),
        http=flag("REPRISE_WEBHOOK_ALLOW_HTTP"),
    )
except ValueError as error:
    raise SystemExit(f"REPRISE_WEBHOOK_ALLOWED_NETWORKS: {error}") from None
