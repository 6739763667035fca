"""Priority classes in GraphQL."""

from typing import Any

import graphene

from interfaces.graphql.connections import connection_to
from interfaces.graphql.kinds import BY_NAME, Kind, KindNode, one_of, pages_of
from interfaces.graphql.policies import VERSION
from interfaces.graphql.shapes import shape_of
from interfaces.kinds.priority_classes import PRIORITY_CLASS

_Shape: Any = shape_of(PRIORITY_CLASS.shape)


class PriorityClass(_Shape, KindNode):
    """A priority class: sessions of a higher value go first within their queue."""

    of = PRIORITY_CLASS
    version = graphene.String(required=True, description=VERSION)


PriorityClassConnection = connection_to(PriorityClass)
PRIORITY_CLASSES = Kind(PRIORITY_CLASS, PriorityClass, BY_NAME)


class PriorityClassQueries:
    """The root fields of priority classes."""

    priority_class = one_of(PRIORITY_CLASSES, name=graphene.String(required=True))
    priority_classes = pages_of(PRIORITY_CLASSES, PriorityClassConnection)
