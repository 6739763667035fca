"""The views of plain kinds over REST."""

from collections.abc import Sequence

from sessions_app.api.kinds.categories import CATEGORY
from sessions_app.api.kinds.priority_classes import PRIORITY_CLASS
from sessions_app.api.rest.policy_views import DocumentView
from sessions_app.api.rest.resource_views import ResourceList, ResourceOne, ResourceView


class CategoriesView(DocumentView, ResourceList):
    of = CATEGORY


class CategoryView(DocumentView, ResourceOne):
    of = CATEGORY


class PriorityClassesView(DocumentView, ResourceList):
    of = PRIORITY_CLASS


class PriorityClassView(DocumentView, ResourceOne):
    of = PRIORITY_CLASS


VIEWS: Sequence[type[ResourceView]] = (
    CategoriesView,
    CategoryView,
    PriorityClassesView,
    PriorityClassView,
)
"""All of them. Each knows its address."""
