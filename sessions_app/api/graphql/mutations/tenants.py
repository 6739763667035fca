"""Mutations of domains and projects."""

from typing import Any

import graphene
from graphql_relay import to_global_id

from sessions_app.api.graphql.context import Context
from sessions_app.api.graphql.mutations.base import Change, Deletion
from sessions_app.api.graphql.peers import alone
from sessions_app.api.graphql.tenants import (
    Domain,
    Project,
    domains_told,
    projects_told,
    split_address,
)
from sessions_app.api.operations import tenants as operations
from sessions_app.api.operations.tenants import DomainCreate, ProjectCreate


class CreateDomain(Change, body=DomainCreate):
    """Make a domain, without projects."""

    domain = graphene.Field(Domain)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        return {
            "domain": alone(Domain, operations.domain_create(context.actor, given), domains_told)
        }


class DeleteDomain(Deletion):
    """Delete a domain that has no projects."""

    class Input:
        name = graphene.String(required=True)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        operations.domain_delete(context.actor, given["name"])
        return {"deleted_id": to_global_id("Domain", given["name"])}


class CreateProject(Change, body=ProjectCreate):
    """Make a project with its default queue."""

    project = graphene.Field(Project)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        return {
            "project": alone(
                Project, operations.project_create(context.actor, given), projects_told
            )
        }


class DeleteProject(Deletion):
    """Delete a project in which nothing ever ran, with all that is set for it."""

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
