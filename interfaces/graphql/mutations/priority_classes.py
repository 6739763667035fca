"""Mutations of priority classes."""

from interfaces.graphql.mutations.kinds import CreateOf, DeleteOf, ReplaceOf, UpdateOf
from interfaces.graphql.priority_classes import PRIORITY_CLASSES


class CreatePriorityClass(CreateOf, of=PRIORITY_CLASSES): ...


class ReplacePriorityClass(ReplaceOf, of=PRIORITY_CLASSES): ...


class UpdatePriorityClass(UpdateOf, of=PRIORITY_CLASSES): ...


class DeletePriorityClass(DeleteOf, of=PRIORITY_CLASSES):
    """Delete a class that no session which waits or runs has."""


class PriorityClassMutations:
    """The mutations of priority classes."""

    create_priority_class = CreatePriorityClass.Field()
    replace_priority_class = ReplacePriorityClass.Field()
    update_priority_class = UpdatePriorityClass.Field()
    delete_priority_class = DeletePriorityClass.Field()
