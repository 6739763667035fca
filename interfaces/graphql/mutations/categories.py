"""Mutations of failure categories."""

from interfaces.graphql.mutations.kinds import CreateOf, DeleteOf, ReplaceOf, UpdateOf
from interfaces.graphql.policies import CATEGORIES


class CreateFailureCategory(CreateOf, of=CATEGORIES):
    """Create a failure category. Without a position it comes last."""


class ReplaceFailureCategory(ReplaceOf, of=CATEGORIES):
    """Create or replace a failure category. Without a position, an existing one stays where it
    is."""


class UpdateFailureCategory(UpdateOf, of=CATEGORIES):
    """Change the position, the matchers, or both. The name stays, since rules refer to it."""


class DeleteFailureCategory(DeleteOf, of=CATEGORIES): ...


class CategoryMutations:
    """The mutations of failure categories."""

    create_failure_category = CreateFailureCategory.Field()
    replace_failure_category = ReplaceFailureCategory.Field()
    update_failure_category = UpdateFailureCategory.Field()
    delete_failure_category = DeleteFailureCategory.Field()
