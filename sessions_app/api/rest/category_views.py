"""Failure categories over REST."""

from typing import ClassVar
from urllib.parse import quote

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api.http.paging import RowCursor
from sessions_app.api.http.preconditions import IF_MATCH, etag, expected_of
from sessions_app.api.http.views import body_of
from sessions_app.api.openapi.generator import query_parameters
from sessions_app.api.operations import categories as operations
from sessions_app.api.operations.categories import CategoryBody, CategoryChanges
from sessions_app.api.render.policy_render import category_json
from sessions_app.api.requests.queries import PageQuery, query_of
from sessions_app.api.rest.policy_views import DocumentView
from sessions_app.api.shapes import policy_shapes as shapes
from sessions_app.authorization import Action, authorize
from sessions_app.models import FailureCategory
from sessions_app.selectors.policies import categories_listed, category_named
from sessions_app.services.resources.categories import category_version


class CategoriesView(DocumentView):
    """`/failure-categories/`."""

    actions: ClassVar = {"GET": Action.CATEGORY_READ, "POST": Action.CATEGORY_WRITE}

    @extend_schema(
        operation_id="failure_categories_list",
        parameters=query_parameters(PageQuery),
        responses=shapes.CategoryPage,
    )
    def get(self, request: Request) -> Response:
        """List the failure categories in the order in which they are tried."""
        rows = categories_listed(self.actor)
        query_of(PageQuery, request.query_params)
        return RowCursor("position", "name", unique=False).answer(rows, request, category_json)

    @extend_schema(
        operation_id="failure_categories_create",
        request=CategoryBody,
        responses={201: shapes.Category},
    )
    def post(self, request: Request) -> Response:
        """Create a failure category."""
        made = operations.create(self.actor, body_of(request))
        headers = {"Location": request.build_absolute_uri(f"{quote(made.name)}/")}
        return _response(made, status=201, **headers)


class CategoryView(DocumentView):
    """`/failure-categories/{name}/`."""

    actions: ClassVar = {
        "GET": Action.CATEGORY_READ,
        "PUT": Action.CATEGORY_WRITE,
        "PATCH": Action.CATEGORY_WRITE,
        "DELETE": Action.CATEGORY_WRITE,
    }

    @extend_schema(operation_id="failure_category_read", responses=shapes.Category)
    def get(self, request: Request, name: str) -> Response:
        """One failure category."""
        authorize(self.actor, self.required_action)
        return _response(category_named(name))

    @extend_schema(
        operation_id="failure_category_apply",
        parameters=[IF_MATCH],
        request=CategoryBody,
        responses={200: shapes.Category, 201: shapes.Category},
    )
    def put(self, request: Request, name: str) -> Response:
        """Create or replace a failure category."""
        row, made = operations.put(self.actor, name, body_of(request), expected_of(request))
        return _response(row, status=201 if made else 200)

    @extend_schema(
        operation_id="failure_category_change",
        parameters=[IF_MATCH],
        request=CategoryChanges,
        responses=shapes.Category,
    )
    def patch(self, request: Request, name: str) -> Response:
        """Change the position, the matchers, or both."""
        return _response(
            operations.change(self.actor, name, body_of(request), expected_of(request))
        )

    @extend_schema(
        operation_id="failure_category_delete", parameters=[IF_MATCH], responses={204: None}
    )
    def delete(self, request: Request, name: str) -> Response:
        """Delete a failure category. Rules that name it no longer match."""
        operations.delete(self.actor, name, expected_of(request))
        return Response(status=204)


def _response(row: FailureCategory, status: int = 200, **headers: str) -> Response:
    headers |= etag(category_version(row))
    return Response(category_json(row), status=status, headers=headers)
