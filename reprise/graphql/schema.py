"""The root of the GraphQL schema, which joins the types of all rooms, and its execution.

Imported with the first call of `/graphql/`, since the import takes half a second.
"""

from functools import cache
from typing import Any

import graphene
from django.conf import settings
from graphene_django.views import GraphQLView
from graphql import (
    ExecutionResult,
    GraphQLError,
    GraphQLSchema,
    NoSchemaIntrospectionCustomRule,
    get_operation_ast,
    parse,
    print_schema,
    specified_rules,
)
from graphql.validation import MaxIntrospectionDepthRule

from interfaces.graphql.audit import AuditQueries
from interfaces.graphql.breakers import BreakerQueries
from interfaces.graphql.budgets import BudgetQueries
from interfaces.graphql.context import Context
from interfaces.graphql.enums import read_in_any_case
from interfaces.graphql.errors import error_json
from interfaces.graphql.executors import ExecutorQueries
from interfaces.graphql.failures import FailureQueries
from interfaces.graphql.job_sets import JobSetQueries
from interfaces.graphql.limits import MAX_COMMENTS, MAX_TOKENS, check_limits
from interfaces.graphql.mutations import Mutations
from interfaces.graphql.mutations.executors import ExecutorMutations
from interfaces.graphql.nodes import NodeQueries
from interfaces.graphql.policies import PolicyQueries
from interfaces.graphql.priority_classes import PriorityClassQueries
from interfaces.graphql.queues import QueueQueries
from interfaces.graphql.reports import ReportQueries
from interfaces.graphql.retry_config import RetryConfigQueries
from interfaces.graphql.schedules import ScheduleQueries
from interfaces.graphql.session_queries import SessionQueries
from interfaces.graphql.simulate import SimulateQueries
from interfaces.graphql.tenant_queries import TenantQueries
from interfaces.graphql.webhooks import WebhookQueries
from reprise.graphql.operations import OperationsQueries
from sessions_app.authorization import Actor
from sessions_app.instruments import GRAPHQL_ERRORS
from sessions_app.models import ApiToken


class Query(
    SessionQueries,
    JobSetQueries,
    FailureQueries,
    BreakerQueries,
    BudgetQueries,
    ReportQueries,
    PolicyQueries,
    PriorityClassQueries,
    RetryConfigQueries,
    SimulateQueries,
    QueueQueries,
    ExecutorQueries,
    OperationsQueries,
    TenantQueries,
    ScheduleQueries,
    WebhookQueries,
    AuditQueries,
    NodeQueries,
    graphene.ObjectType,
):
    """All queries. The `extensions` of an error have the fields of REST's problem."""


class Mutation(ExecutorMutations, Mutations, graphene.ObjectType):
    """All mutations. The `errors` of a payload say why nothing was changed."""


def _schema() -> graphene.Schema:
    made = graphene.Schema(query=Query, mutation=Mutation)
    read_in_any_case(made.graphql_schema)
    return made


schema = _schema()


def schema_text() -> str:
    """Return the schema in GraphQL's schema language, as in docs/schema.graphql."""
    return print_schema(_graphql_schema()).rstrip() + "\n"


def root_fields() -> dict[str, list[str]]:
    """Return the names of all fields of each root type; the authorization table lists them."""
    found = _graphql_schema()
    roots = {"Query": found.query_type, "Mutation": found.mutation_type}
    return {name: sorted(root.fields) if root else [] for name, root in roots.items()}


def _graphql_schema() -> GraphQLSchema:
    made: GraphQLSchema = schema.graphql_schema
    return made


class Engine(GraphQLView):
    """Executes documents after checking their limits."""

    def carry_out(
        self, context: Context, query: str, variables: dict[str, Any], name: str | None
    ) -> ExecutionResult:
        """Execute the operation `name` of a document within the limits. Return its result."""
        try:
            document = parse(query, max_lexical_tokens=MAX_TOKENS, max_comments=MAX_COMMENTS)
            operation = get_operation_ast(document, name)
            if operation is None:
                raise GraphQLError("the document has several operations: give operationName")
            check_limits(_graphql_schema(), document, operation, variables)
        except GraphQLError as error:
            return ExecutionResult(errors=[error])
        result: ExecutionResult = self.execute_graphql_request(context, {}, query, variables, name)
        return result


@cache
def _engine(*, introspection: bool) -> Engine:
    rules = [*specified_rules, MaxIntrospectionDepthRule]
    if not introspection:
        rules.append(NoSchemaIntrospectionCustomRule)
    return Engine(schema=schema, middleware=(), validation_rules=rules)


def carry_out(
    actor: Actor,
    token: ApiToken | None,
    query: str,
    variables: dict[str, Any],
    operation_name: str | None,
) -> tuple[dict[str, Any], int]:
    """Return the answer to a document, and its status: 400 if nothing was executed."""
    engine = _engine(introspection=settings.REPRISE_GRAPHQL_INTROSPECTION)
    result = engine.carry_out(Context(actor, token), query, variables, operation_name)
    answer: dict[str, Any] = {}
    if result.errors:
        answer["errors"] = [error_json(error) for error in result.errors]
        for each in answer["errors"]:
            GRAPHQL_ERRORS.labels(each["extensions"]["code"]).inc()
        if all(error.path is None for error in result.errors):
            return answer, 400
    return {"data": result.data, **answer}, 200
