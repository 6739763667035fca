"""Domains and projects. Their names cannot change."""

from collections.abc import Mapping
from operator import attrgetter
from typing import Annotated, Any

from pydantic import Field, StrictStr

from interfaces.kinds.resource import Call, Listing, Resource, each
from interfaces.render.tenant_render import domain_json, project_json
from interfaces.requests.filters import DomainFilter, ProjectFilter
from interfaces.requests.strict import StrictModel
from interfaces.shapes import tenant_shapes as shapes
from retry.policies.fields import Label
from sessions_app.authorization import Action, Actor, authorize
from sessions_app.models import Domain, Project
from sessions_app.selectors.sessions import domain_get, project_get
from sessions_app.selectors.tenants import domain_named, domains_visible, projects_listed
from sessions_app.services.resources import tenants


class DomainCreate(StrictModel):
    """The body of `POST /domains/`."""

    name: Label


class ProjectCreate(StrictModel):
    """The body of `POST /projects/`."""

    domain: Annotated[StrictStr, Field(min_length=1, max_length=63)]
    name: Label


def domain_create(actor: Actor, body: Mapping[str, Any]) -> Domain:
    """Create a domain without projects."""
    authorize(actor, Action.DOMAIN_WRITE)
    return tenants.domain_create(DomainCreate.model_validate(body).name, by=actor.name)


def domain_delete(actor: Actor, domain: str) -> None:
    """Delete a domain without projects."""
    # Only cluster admins may, but nobody learns of a domain that they cannot see.
    found = domain_get(actor, domain, Action.DOMAIN_READ)
    authorize(actor, Action.DOMAIN_WRITE)
    tenants.domain_delete(found, by=actor.name)


def project_create(actor: Actor, body: Mapping[str, Any]) -> Project:
    """Create a project with its default queue."""
    asked = ProjectCreate.model_validate(body)
    domain = domain_named(actor, asked.domain, Action.PROJECT_CREATE)
    return tenants.project_create(domain, asked.name, by=actor.name)


def project_delete(actor: Actor, domain: str, project: str) -> None:
    """Delete a project in which nothing ever ran, with its whole configuration."""
    found = project_get(actor, domain, project, Action.PROJECT_DELETE)
    tenants.project_delete(found, by=actor.name)


DOMAIN = Resource(
    name="domain",
    many="domains",
    address="domains",
    place="<str:domain>",
    at=attrgetter("name"),
    shape=shapes.Domain,
    page=shapes.DomainPage,
    render=each(domain_json),
    listing=Listing(
        Action.DOMAIN_LIST,
        "List the domains that you may see, by name.",
        domains_visible,
        ["name"],
        DomainFilter,
    ),
    read=Call(Action.DOMAIN_READ, "One domain.", domain_get),
    create=Call(
        Action.DOMAIN_WRITE, "Create a domain without projects.", domain_create, DomainCreate
    ),
    delete=Call(Action.DOMAIN_WRITE, "Delete a domain without projects.", domain_delete),
)
PROJECT = Resource(
    name="project",
    many="projects",
    address="projects",
    place="<str:domain>/<str:project>",
    at=attrgetter("address"),
    shape=shapes.Project,
    page=shapes.ProjectPage,
    render=each(project_json),
    listing=Listing(
        Action.PROJECT_LIST,
        "List the projects that you may see, oldest first.",
        projects_listed,
        ["id"],
        ProjectFilter,
    ),
    read=Call(Action.PROJECT_READ, "One project.", project_get),
    create=Call(
        Action.PROJECT_CREATE,
        "Create a project and its default queue.",
        project_create,
        ProjectCreate,
    ),
    delete=Call(
        Action.PROJECT_DELETE,
        "Delete a project that never had a session, with all its settings.",
        project_delete,
    ),
)
