"""The bearer of a token over REST."""

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api.http.views import RestView
from sessions_app.api.shapes import session_shapes
from sessions_app.authorization import Action, Actor, authorize, require_user
from sessions_app.models import ApiToken


class WhoAmIView(RestView):
    """`/whoami/`."""

    actions: ClassVar = {"GET": Action.WHOAMI}

    @extend_schema(operation_id="whoami", responses=session_shapes.WhoAmI)
    def get(self, request: Request) -> Response:
        """The user of the token, and the scope that the token is restricted to."""
        authorize(self.actor, self.required_action)
        token: Any = request.auth
        assert isinstance(token, ApiToken)  # noqa: S101  # the only way to authenticate
        return Response(whoami_json(self.actor, token))


def whoami_json(actor: Actor, token: ApiToken | None) -> dict[str, Any]:
    """Return the caller; a None token stands for a browser's session, which has no restrictions."""
    return {
        "username": require_user(actor).username,
        "cluster_admin": actor.is_cluster_admin,
        "project": token.project.address if token and token.project else None,
        "token_name": token.name if token else "",
        "expires_at": token.expires_at if token else None,
        "read_only": actor.read_only,
    }
