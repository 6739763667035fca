"""Failure categories over REST."""

from typing import Annotated, ClassVar
from urllib.parse import quote

from drf_spectacular.utils import extend_schema
from pydantic import BaseModel, ConfigDict, Field, StrictInt
from rest_framework.request import Request
from rest_framework.response import Response

from retry.categories import CategoryMatchers
from retry.categories import FailureCategory as CategoryDocument
from sessions_app.api import policy_responses as shapes
from sessions_app.api.filters import PageQuery, query_of
from sessions_app.api.openapi import query_parameters
from sessions_app.api.paging import RowCursor
from sessions_app.api.policy_render import category_json
from sessions_app.api.preconditions import IF_MATCH, etag, expected_of
from sessions_app.api.rest.policies import DocumentView
from sessions_app.api.views import body_of
from sessions_app.authorization import Action, authorize
from sessions_app.errors import Conflict, InvalidInput, NotFound
from sessions_app.models import FailureCategory
from sessions_app.services.categories import (
    category_change,
    category_create,
    category_delete,
    category_version,
)
from sessions_app.versions import Expected

Position = Annotated[StrictInt, Field(ge=-(2**31), lt=2**31)]


class CategoryBody(CategoryDocument):
    """A category; without a position a new one comes last, and an old one stays where it is."""

    position: Position | None = None

    @property
    def category(self) -> CategoryDocument:
        """Without the position."""
        return CategoryDocument(name=self.name, matchers=self.matchers)


class CategoryChanges(BaseModel):
    """What `PATCH` may change; rules ask for the name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    position: Position | None = None
    matchers: CategoryMatchers | None = None


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
        authorize(self.actor, self.required_action)
        query_of(PageQuery, request.query_params)
        paginator = RowCursor("position", "name", unique=False)
        page = paginator.read(FailureCategory.objects.all(), request)
        return paginator.get_paginated_response([category_json(each) for each in page])

    @extend_schema(
        operation_id="failure_categories_create",
        request=CategoryBody,
        responses={201: shapes.Category},
    )
    def post(self, request: Request) -> Response:
        """Make a failure category."""
        authorize(self.actor, self.required_action)
        asked = CategoryBody.model_validate(body_of(request))
        made = category_create(asked.category, position=asked.position, by=self.actor.name)
        headers = {"Location": request.build_absolute_uri(f"{quote(made.name)}/")}
        return _told(made, status=201, **headers)


class CategoryView(DocumentView):
    """`/failure-categories/{name}/`."""

    actions: ClassVar = {
        "GET": Action.CATEGORY_READ,
        "PUT": Action.CATEGORY_WRITE,
        "PATCH": Action.CATEGORY_WRITE,
        "DELETE": Action.CATEGORY_WRITE,
    }

    @extend_schema(operation_id="failure_category_read", responses=shapes.Category)
    def get(self, request: Request, name: str) -> Response:  # noqa: ARG002
        """One failure category."""
        authorize(self.actor, self.required_action)
        return _told(_category(name))

    @extend_schema(
        operation_id="failure_category_apply",
        parameters=[IF_MATCH],
        request=CategoryBody,
        responses={200: shapes.Category, 201: shapes.Category},
    )
    def put(self, request: Request, name: str) -> Response:
        """Make a category, or replace it."""
        authorize(self.actor, self.required_action)
        asked = CategoryBody.model_validate({"name": name, **body_of(request)})
        if asked.name != name:
            raise InvalidInput({"name": [f"must be {name!r}, as in the address"]})
        expected = expected_of(request)
        if expected is None:
            try:
                made = category_create(asked.category, position=asked.position, by=self.actor.name)
            except Conflict:
                pass  # it is there, and is replaced
            else:
                return _told(made, status=201)
        return self._change(name, asked.category, asked.position, expected)

    @extend_schema(
        operation_id="failure_category_change",
        parameters=[IF_MATCH],
        request=CategoryChanges,
        responses=shapes.Category,
    )
    def patch(self, request: Request, name: str) -> Response:
        """Change the position, the matchers or both."""
        authorize(self.actor, self.required_action)
        asked = CategoryChanges.model_validate(body_of(request))
        document = (
            None
            if asked.matchers is None
            else CategoryDocument(name=_category(name).name, matchers=asked.matchers)
        )
        return self._change(name, document, asked.position, expected_of(request))

    @extend_schema(
        operation_id="failure_category_delete", parameters=[IF_MATCH], responses={204: None}
    )
    def delete(self, request: Request, name: str) -> Response:
        """Delete a category; rules that ask for it do not match any more."""
        authorize(self.actor, self.required_action)
        category_delete(name, by=self.actor.name, expected=expected_of(request))
        return Response(status=204)

    def _change(
        self,
        name: str,
        document: CategoryDocument | None,
        position: int | None,
        expected: Expected | None,
    ) -> Response:
        by = self.actor.name
        row = category_change(name, document=document, position=position, by=by, expected=expected)
        return _told(row)


def _told(row: FailureCategory, status: int = 200, **headers: str) -> Response:
    headers |= etag(category_version(row))
    return Response(category_json(row), status=status, headers=headers)


def _category(name: str) -> FailureCategory:
    found = FailureCategory.objects.filter(name=name).first()
    if found is None:
        raise NotFound(f"no failure category {name}")
    return found
