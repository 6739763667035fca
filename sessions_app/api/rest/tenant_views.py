"""Domains and projects over REST. Their names cannot change, because they are part of addresses."""

from typing import ClassVar, TypeVar

from django.db.models import Model
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api.http.paging import RowCursor
from sessions_app.api.http.views import RestView, body_of
from sessions_app.api.kinds import tenants as operations
from sessions_app.api.kinds.tenants import DomainCreate, ProjectCreate
from sessions_app.api.openapi.generator import query_parameters
from sessions_app.api.render.tenant_render import domain_json, project_json
from sessions_app.api.requests.filters import DomainFilter, ProjectFilter
from sessions_app.api.requests.queries import query_of
from sessions_app.api.shapes import tenant_shapes as shapes
from sessions_app.authorization import Action
from sessions_app.selectors.sessions import domain_get, project_get
from sessions_app.selectors.tenants import domains_visible, projects_listed

Row = TypeVar("Row", bound=Model)


class DomainsView(RestView):
    """`/domains/`."""

    actions: ClassVar = {"GET": Action.DOMAIN_LIST, "POST": Action.DOMAIN_WRITE}

    @extend_schema(
        operation_id="domains_list",
        parameters=query_parameters(DomainFilter),
        responses=shapes.DomainPage,
    )
    def get(self, request: Request) -> Response:
        """List the domains that you may see, by name."""
        wanted = query_of(DomainFilter, request.query_params)
        rows = wanted.apply(self.actor, domains_visible(self.actor))
        return RowCursor("name").answer(rows, request, domain_json)

    @extend_schema(
        operation_id="domains_create", request=DomainCreate, responses={201: shapes.Domain}
    )
    def post(self, request: Request) -> Response:
        """Create a domain without projects."""
        made = operations.domain_create(self.actor, body_of(request))
        return self.created(domain_json(made), f"{made.name}/")


class DomainView(RestView):
    """`/domains/{domain}/`."""

    actions: ClassVar = {"GET": Action.DOMAIN_READ, "DELETE": Action.DOMAIN_WRITE}

    @extend_schema(operation_id="domain_read", responses=shapes.Domain)
    def get(self, request: Request, domain: str) -> Response:
        """One domain."""
        return Response(domain_json(domain_get(self.actor, domain, self.required_action)))

    @extend_schema(operation_id="domain_delete", responses={204: None})
    def delete(self, request: Request, domain: str) -> Response:
        """Delete a domain without projects."""
        operations.domain_delete(self.actor, domain)
        return Response(status=204)


class ProjectsView(RestView):
    """`/projects/`."""

    actions: ClassVar = {"GET": Action.PROJECT_LIST, "POST": Action.PROJECT_CREATE}

    @extend_schema(
        operation_id="projects_list",
        parameters=query_parameters(ProjectFilter),
        responses=shapes.ProjectPage,
    )
    def get(self, request: Request) -> Response:
        """List the projects that you may see, oldest first."""
        wanted = query_of(ProjectFilter, request.query_params)
        rows = wanted.apply(self.actor, projects_listed(self.actor))
        return RowCursor("id").answer(rows, request, project_json)

    @extend_schema(
        operation_id="projects_create", request=ProjectCreate, responses={201: shapes.Project}
    )
    def post(self, request: Request) -> Response:
        """Create a project and its default queue."""
        made = operations.project_create(self.actor, body_of(request))
        return self.created(project_json(made), f"{made.address}/")


class ProjectView(RestView):
    """`/projects/{domain}/{project}/`."""

    actions: ClassVar = {"GET": Action.PROJECT_READ, "DELETE": Action.PROJECT_DELETE}

    @extend_schema(operation_id="project_read", responses=shapes.Project)
    def get(self, request: Request, **names: str) -> Response:
        """One project."""
        found = project_get(self.actor, names["domain"], names["project"], self.required_action)
        return Response(project_json(found))

    @extend_schema(operation_id="project_delete", responses={204: None})
    def delete(self, request: Request, **names: str) -> Response:
        """Delete a project that never had a session, with all its settings."""
        operations.project_delete(self.actor, names["domain"], names["project"])
        return Response(status=204)
