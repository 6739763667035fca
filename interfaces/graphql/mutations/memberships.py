"""Mutations of memberships."""

from interfaces.graphql.mutations.kinds import CreateOf, DeleteOf, UpdateOf
from interfaces.graphql.tenant_queries import MEMBERSHIPS


class CreateMembership(CreateOf, of=MEMBERSHIPS):
    """Give a user a role in a project or in all projects of a domain."""


class UpdateMembership(UpdateOf, of=MEMBERSHIPS): ...


class DeleteMembership(DeleteOf, of=MEMBERSHIPS): ...


class MembershipMutations:
    """The mutations of memberships."""

    create_membership = CreateMembership.Field()
    update_membership = UpdateMembership.Field()
    delete_membership = DeleteMembership.Field()
