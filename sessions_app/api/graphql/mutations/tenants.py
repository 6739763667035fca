"""Mutations of domains and projects."""

from typing import Any

import graphene
from graphql_relay import to_global_id

from sessions_app.api.graphql.context import Context
from sessions_app.api.graphql.mutations.base import Change, Deletion
from sessions_app.api.graphql.peers import single_peer
from sessions_app.api.graphql.tenants import (
    Domain,
    Project,
    render_domains,
    render_projects,
    split_address,
)
from sessions_app.api.kinds import tenants as operations
from sessions_app.api.kinds.tenants import DomainCreate, ProjectCreate


class CreateDomain(Change, body=DomainCreate):
    """Create a domain without projects."""

    domain = graphene.Field(Domain)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        return {
            "domain": single_peer(
                Domain, operations.domain_create(context.actor, given), render_domains
            )
        }


class DeleteDomain(Deletion):
    """Delete a domain without projects."""

    class Input:
        name = graphene.String(required=True)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        operations.domain_delete(context.actor, given["name"])
        return {"deleted_id": to_global_id("Domain", given["name"])}


class CreateProject(Change, body=ProjectCreate):
    """Create a project and its default queue."""

    project = graphene.Field(Project)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        return {
            "project": single_peer(
                Project, operations.project_create(context.actor, given), render_projects
            )
        }


class DeleteProject(Deletion):
    """Delete a project that never had a session, with all its settings."""

    class Input:
        project = graphene.String(required=True, description="`domain/name`.")

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        operations.project_delete(context.actor, *split_address(given["project"]))
        return {"deleted_id": to_global_id("Project", given["project"])}


class TenantMutations:
    """The mutations of domains and projects."""

    create_domain = CreateDomain.Field()
    delete_domain = DeleteDomain.Field()
    create_project = CreateProject.Field()
    delete_project = DeleteProject.Field()
