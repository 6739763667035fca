"""All settings; those that differ between deployments are declared in `reprise/environment.py`."""

import secrets
from dataclasses import fields
from datetime import timedelta
from importlib.util import find_spec
from ipaddress import ip_network
from pathlib import Path

import dj_database_url

from base.loglines import lines
from base.podspec.specification import refused_paths
from reprise.environment import Numbers, given
from reprise.kinds import NO_DATABASE
from sessions_app.core.encryption import EncryptionKeys
from sessions_app.webhooks.url_guard import Guard

BASE_DIR = Path(__file__).resolve().parent.parent
"""The packages are here: a checkout, or the site-packages of an installation."""

# The environment of this process; the settings below derive from it.
GIVEN = given()

SECRET_KEY = GIVEN.secret_key or secrets.token_urlsafe(48)
ENCRYPTION_KEYS = GIVEN.encryption_keys or EncryptionKeys([secrets.token_urlsafe(48)], made_up=True)
DEBUG = False
ALLOWED_HOSTS = list(GIVEN.allowed_hosts)

SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = GIVEN.https
SECURE_HSTS_SECONDS = GIVEN.hsts_seconds
# The middleware removes this header of whoever is not trusted.
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
TRUSTED_PROXIES = tuple(map(ip_network, GIVEN.trusted_proxies))
CSRF_TRUSTED_ORIGINS = list(GIVEN.csrf_trusted_origins)

INSTALLED_APPS = [
    "unfold.apps.BasicAppConfig",
    "unfold.contrib.filters",
    "reprise.admin_site.config.OperatorsConfig",
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
    "interfaces",
    "reprise",
    # It demonstrates, and is no part of the wheel.
    *(each for each in ("reprise.scale",) if find_spec(each)),
]

MIDDLEWARE = [
    "reprise.http.forwarded.Forwarded",
    "reprise.http.request_log.RequestLog",
    "reprise.http.page_security.PageSecurity",
    "reprise.http.call_limits.CallLimits",
    "reprise.http.tables_there.TablesThere",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "reprise.http.hosts.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "reprise.http.page_messages.PageMessages",
    "sessions_app.audit.middleware.DoorMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "axes.middleware.AxesMiddleware",
    "reprise.http.unseen.MarkUnseen",
    "reprise.http.calls_anew.CallsAnew",
]

ROOT_URLCONF = "reprise.urls"
WSGI_APPLICATION = "reprise.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "interfaces/templates"],
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


POOL_SIZE = GIVEN.database_pool


def database(url: str, pool_size: int = POOL_SIZE) -> dict[str, object]:
    """Return Django's settings for one PostgreSQL."""
    if url == NO_DATABASE:
        return {"ENGINE": "django.db.backends.dummy"}
    found = dj_database_url.parse(url, conn_health_checks=True)
    soon = {
        # Notice soon that a server vanished, and reconnect soon when it is back.
        "connect_timeout": 3,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 15_000,
    }
    options = {
        # A pool takes connections back after each request; Django's own reuse would defeat that.
        "pool": {"min_size": 1, "max_size": pool_size, "timeout": 10},
        # The hot statements are few and always the same: each connection parses and plans them
        # once.
        "server_side_binding": True,
        "prepare_threshold": 3,
    }
    return {
        **found,
        "ENGINE": "reprise.postgresql",
        "CONN_MAX_AGE": 0,
        "OPTIONS": {**soon, **found.get("OPTIONS", {}), **options},
    }


DATABASES = {"default": database(GIVEN.database_url or "postgres:///reprise")}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

_VALIDATORS = "django.contrib.auth.password_validation."
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": _VALIDATORS + "UserAttributeSimilarityValidator"},
    {"NAME": _VALIDATORS + "MinimumLengthValidator"},
    {"NAME": _VALIDATORS + "CommonPasswordValidator"},
    {"NAME": _VALIDATORS + "NumericPasswordValidator"},
]
# The first backend counts wrong passwords, and refuses after too many.
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

# A small limit for people, larger ones for executors and bulk calls; checked before reading.
DATA_UPLOAD_MAX_MEMORY_SIZE = 16 * 1024 * 1024
BODY_LIMIT_BYTES = 1024 * 1024
EXECUTOR_BODY_LIMIT_BYTES = 16 * 1024 * 1024
BULK_BODY_LIMIT_BYTES = 16 * 1024 * 1024

_SHADES = (50, *range(100, 1000, 100), 950)
# All assets come with the theme; the browser's preference decides light or dark. The colours are
# those of the pages.
UNFOLD = {
    "SITE_TITLE": "Reprise",
    "SITE_HEADER": "Reprise",
    "SITE_SUBHEADER": "operators",
    "SITE_ICON": f"{STATIC_URL}reprise/favicon.svg",
    "COLORS": {
        name: {str(shade): f"var(--{scale}-{shade})" for shade in _SHADES}
        for name, scale in (("primary", "brand"), ("base", "neutral"))
    },
    "SITE_FAVICONS": [
        {"rel": "icon", "type": "image/svg+xml", "href": f"{STATIC_URL}reprise/favicon.svg"}
    ],
    "STYLES": [f"{STATIC_URL}reprise/{name}.css" for name in ("tokens", "shared", "admin")],
    "SCRIPTS": [f"{STATIC_URL}reprise/admin.js"],
    "SHOW_BACK_BUTTON": True,
    "DASHBOARD_CALLBACK": "reprise.admin_site.dashboard.dashboard",
    "SIDEBAR": {"navigation": "reprise.admin_site.dashboard.navigation"},
}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["interfaces.http.authentication.TokenAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["interfaces.http.authentication.IsActor"],
    "DEFAULT_PARSER_CLASSES": ["interfaces.http.parsing.StrictJSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["interfaces.http.json_renderer.FastJSONRenderer"],
    "DEFAULT_THROTTLE_CLASSES": ["interfaces.http.throttling.TokenThrottle"],
    "DEFAULT_SCHEMA_CLASS": "interfaces.openapi.generator.RepriseSchema",
    "EXCEPTION_HANDLER": "interfaces.http.problems.exception_handler",
    # The OpenAPI document describes the API, so OPTIONS is a 405.
    "DEFAULT_METADATA_CLASS": None,
    "UNAUTHENTICATED_USER": None,
    "UNICODE_JSON": True,
    # Only `Accept` decides the format of an answer.
    "URL_FORMAT_OVERRIDE": None,
}

SPECTACULAR_SETTINGS = {
    "TITLE": "Reprise",
    "DESCRIPTION": (
        "Runs batch sessions on many clusters and retries failed ones by policy.\n\n"
        "The enumerations of answers list the values of this version. A newer version may add "
        "values: clients should treat an unknown value as text."
    ),
    "VERSION": "2",
    "OAS_VERSION": "3.1.1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["interfaces.http.authentication.IsActorOrBrowserUser"],
    "SERVE_AUTHENTICATION": [
        "interfaces.http.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SCHEMA_PATH_PREFIX": "/api/v2",
    "COMPONENT_SPLIT_REQUEST": True,
    "POSTPROCESSING_HOOKS": ["interfaces.openapi.generator.add_problem_responses"],
}

CELERY_BROKER_URL = GIVEN.broker_url or "memory://localhost//"
CELERY_BEAT_SCHEDULER = "reprise.beat.scheduler:LockedScheduler"

LOG_FORMAT = lines.wanted_format(GIVEN.log_format, production=GIVEN.production)
LOGGING_CONFIG = "base.loglines.lines.configure"
LOGGING = lines.configuration(
    LOG_FORMAT,
    GIVEN.log_level or "WARNING",
    ["reprise.http.stranger_lines.StrangerLines"],
    **{
        # A 4xx is the caller's mistake, and has a line of `reprise.requests`.
        "django.request": "ERROR",
        # Celery writes two lines for each task; the metrics count them already.
        "celery.worker.strategy": "WARNING",
        "celery.app.trace": "WARNING",
    },
)

# How operators call this program.
REPRISE_COMMAND = "manage.py" if (BASE_DIR / "manage.py").exists() else "reprise-server"
REPRISE_METRICS_TOKEN = GIVEN.metrics_token
REPRISE_DEFAULT_PROJECT = GIVEN.default_project
REPRISE_ISOLATE_RUNS = GIVEN.isolate_runs
REPRISE_PREEMPTION = GIVEN.preemption
# The user as whom runs act that are not isolated; set by standalone.
REPRISE_RUNS_AS = ""
REPRISE_GRAPHQL_INTROSPECTION = GIVEN.graphql_introspection
REPRISE_GRAPHIQL = GIVEN.graphiql
REPRISE_STYLE_PAGE = GIVEN.style_page
REPRISE: dict[str, float] = {each.name: getattr(GIVEN, each.name) for each in fields(Numbers)}

AXES_LOCKOUT_PARAMETERS = ["username", "ip_address"]
AXES_FAILURE_LIMIT = int(REPRISE["login_failures"])
AXES_COOLOFF_TIME = timedelta(seconds=REPRISE["login_cool_off"])
# Otherwise an attacker who goes on trying would lock the user out forever.
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_CLIENT_IP_CALLABLE = "interfaces.http.addresses.request_address"
AXES_LOCKOUT_CALLABLE = "reprise.admin_site.locked_out.locked_out"
AXES_DISABLE_ACCESS_LOG = True
AXES_ENABLE_ADMIN = False
AXES_VERBOSE = False

POD_FIELDS_REFUSED = refused_paths(GIVEN.pod_fields_allowed, GIVEN.pod_fields_refused)
WEBHOOK_GUARD = Guard.of(
    GIVEN.webhook_allowed_networks, GIVEN.webhook_allowed_hosts, http=GIVEN.webhook_allow_http
)
