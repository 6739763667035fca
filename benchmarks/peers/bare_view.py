"""A bare Django view for each call of the API: the same statements, their rows as JSON, no more.

No tokens, no DRF, no middleware. It runs as Reprise itself does:

    gunicorn --config deploy/gunicorn.conf.py benchmarks.peers.bare_view:application

The statements are all that Reprise sends once it knows who asks: two for the member's newest
sessions, one for a session or a chain, and seven that find a queue, make a session in it and read
it for the answer. They are written down at the first call.
"""

import os
from collections.abc import Callable
from functools import cache
from typing import Any
from uuid import UUID

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reprise.settings")

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.db import connection, transaction
from django.http import HttpRequest, JsonResponse
from django.urls import path

from benchmarks.session_history import MEMBER

Statement = tuple[str, Any]
PAGE = 51
settings.ROOT_URLCONF, settings.MIDDLEWARE, settings.TEMPLATES = __name__, [], []


def _sent(act: Callable[[], object]) -> list[Statement]:
    """Return the statements that `act` sends to the database."""
    sent: list[Statement] = []

    def note(execute: Any, sql: str, params: Any, *rest: Any) -> Any:
        sent.append((sql, params))
        return execute(sql, params, *rest)

    connection.ensure_connection()  # connecting sends statements of its own
    with connection.execute_wrapper(note):
        act()
    return sent


def _member() -> Any:
    from django.contrib.auth.models import User

    from sessions_app.authorization import Actor

    actor = Actor(user=User.objects.get(username=MEMBER))
    actor.places_with_role()  # this reads the memberships, which is not part of a list
    return actor


@cache
def _list_statements() -> list[Statement]:
    from interfaces.render.session_render import sessions_json
    from sessions_app.selectors.session_pages import Place, SessionsWanted, sessions_page

    actor = _member()
    return _sent(lambda: sessions_json(sessions_page(actor, SessionsWanted(), Place(PAGE))))


@cache
def _statement_by_id(of_chain: bool) -> str:
    from sessions_app.selectors.session_rows import attempt_rows, session_row

    read = attempt_rows if of_chain else session_row
    ((sql, _),) = _sent(lambda: read(UUID(int=0)))
    return sql


@cache
def _making() -> tuple[UUID, UUID, list[Statement]]:
    """Return the ids of a session and of its specification, and the statements that create them."""
    from interfaces.requests.bodies import SessionCreate
    from sessions_app.authorization import Action
    from sessions_app.models import Session
    from sessions_app.selectors.sessions import queue_resolve
    from sessions_app.services.sessions.submission import Placed
    from sessions_app.services.sessions.submit import session_submit

    actor = _member()
    asked = SessionCreate(image="bench", command=["true"]).submission()
    made: list[UUID] = []

    def act() -> None:
        queue = queue_resolve(actor, "domain-0/project-0", None, Action.SESSION_CREATE)
        made.append(session_submit(Placed(queue, actor.user.pk, asked)).session_id)

    sent = _sent(act)
    return made[0], Session.objects.get(pk=made[0]).spec_id, sent


def _rows(sql: str, params: Any) -> list[dict[str, Any]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        names = [column.name for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _answer(content: Any, status: int = 200) -> JsonResponse:
    response = JsonResponse(content, status=status, safe=False)
    response["Content-Length"] = len(response.content)  # this keeps the connection open
    return response


def list_sessions(request: HttpRequest) -> JsonResponse:  # noqa: ARG001
    """Return the member's newest sessions."""
    page, *others = _list_statements()
    rows = _rows(*page)
    for statement in others:
        _rows(*statement)
    return _answer(rows)


def get_session(request: HttpRequest, session_id: UUID) -> JsonResponse:  # noqa: ARG001
    """Return one session."""
    return _answer(_rows(_statement_by_id(False), [session_id]))


def attempts(request: HttpRequest, session_id: UUID) -> JsonResponse:  # noqa: ARG001
    """Return the chain of a session."""
    return _answer(_rows(_statement_by_id(True), [session_id]))


def create(request: HttpRequest) -> JsonResponse:  # noqa: ARG001
    """Create one more session."""
    from uuid_utils.compat import uuid7

    session, spec, (place, *statements) = _making()
    new, new_spec = uuid7(), uuid7()
    _rows(*place)
    pairs = ((session, new), (spec, new_spec))
    changes = [(write(old), write(other)) for old, other in pairs for write in (str, _hex)]
    with transaction.atomic(), connection.cursor() as cursor:
        for sql, params in statements:
            cursor.execute(sql, _replaced(params, changes))
    return _answer(_rows(_statement_by_id(False), [new]), status=201)


def _hex(key: UUID) -> str:
    return key.hex


def _replaced(value: Any, changes: list[tuple[str, str]]) -> Any:
    if isinstance(value, list):
        return [_replaced(each, changes) for each in value]
    if isinstance(value, dict):
        return {name: _replaced(each, changes) for name, each in value.items()}
    if isinstance(value, str):
        for before, after in changes:
            value = value.replace(before, after)
    return value


urlpatterns = [
    path("list/", list_sessions),
    path("get/<uuid:session_id>/", get_session),
    path("attempts/<uuid:session_id>/", attempts),
    path("create/", create),
]
application = get_wsgi_application()
