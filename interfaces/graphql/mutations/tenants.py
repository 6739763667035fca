"""Mutations of domains and projects."""

from interfaces.graphql.mutations.kinds import CreateOf, DeleteOf
from interfaces.graphql.tenants import DOMAINS, PROJECTS


class CreateDomain(CreateOf, of=DOMAINS): ...


class DeleteDomain(DeleteOf, of=DOMAINS): ...


class CreateProject(CreateOf, of=PROJECTS): ...


class DeleteProject(DeleteOf, of=PROJECTS): ...


class TenantMutations:
    """The mutations of domains and projects."""

    create_domain = CreateDomain.Field()
    delete_domain = DeleteDomain.Field()
    create_project = CreateProject.Field()
    delete_project = DeleteProject.Field()
