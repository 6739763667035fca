"""Who the bearer of a token is."""

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api import responses
from sessions_app.api.views import RestView
from sessions_app.authorization import Action
from sessions_app.models import ApiToken


class WhoAmIView(RestView):
    """`/whoami/`."""

    actions: ClassVar = {"GET": Action.WHOAMI}

    @extend_schema(operation_id="whoami", responses=responses.WhoAmI)
    def get(self, request: Request) -> Response:
        """The user or executor of the token, and what the token is narrowed to."""
        token: Any = request.auth
        assert isinstance(token, ApiToken)  # noqa: S101  # the only way to authenticate
        return Response(
            {
                "username": token.user.username if token.user else None,
                "executor": token.executor_name or None,
                "cluster_admin": self.actor.is_cluster_admin,
                "project": token.project.address if token.project else None,
                "token_name": token.name,
                "expires_at": token.expires_at,
                "read_only": token.read_only,
            }
        )
