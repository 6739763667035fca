"""The bearer of a token over REST."""

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.http.views import RestView
from interfaces.render.tenant_render import whoami_json
from interfaces.shapes import session_shapes
from sessions_app.authorization import Action, authorize
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
