"""Sessions over GraphQL: as REST tells them, page by page, with all that belongs to them."""

from typing import Any

import pytest

from sessions_app.models import Project, Session
from sessions_app.services.chains.dispatch import retries_dispatch
from tests import factories
from tests.graphs import Graph, nodes


@pytest.fixture
def graph(at: Project) -> Graph:
    return Graph(factories.token(factories.user("ann", project=at)))


def failed_chain(at: Project, attempts: int = 2, **fields: Any) -> Session:
    session = factories.submit(at, retry_policy=factories.policy(), **fields)
    for _ in range(attempts - 1):
        factories.settle(factories.start(factories.tip(session)))
        Session.objects.filter(root=session.root_id)
        retries_dispatch()
    return session


def test_a_session_is_what_rest_tells(graph: Graph, at: Project) -> None:
    session = factories.submit(at, name="train", job_set="night", environ={"A": "b"})
    answer = graph.ask(
        """query($id: ID!) { session(id: $id) {
            id sessionId name jobSet status sessionType createdAt environ command batchTimeout
            retryChain chainCount retryState { state attempt maxAttempts summary budgets { name } }
            project { address domain { name } } queue { name } queueName owner } }""",
        id=str(session.pk),
    )["session"]
    rest = graph.read(f"sessions/{session.pk}/")
    assert answer["sessionId"] == rest["id"]
    assert answer["createdAt"] == rest["created_at"]
    assert answer["retryState"]["maxAttempts"] == rest["retry_state"]["max_attempts"]
    assert answer["retryState"]["summary"] == rest["retry_state"]["summary"]
    assert (answer["retryChain"], answer["chainCount"]) == (rest["retry_chain"], 1)
    assert answer["project"] == {"address": "acme/work", "domain": {"name": "acme"}}
    again = graph.ask(
        "query($id: ID!) { node(id: $id) { id ... on Session { name } } }", id=answer["id"]
    )
    assert again["node"] == {"id": answer["id"], "name": "train"}


def test_pages_of_sessions(graph: Graph, at: Project) -> None:
    made = [factories.submit(at) for _ in range(5)]
    query = """query($after: String) { sessions(first: 2, after: $after) {
        edges { cursor node { sessionId attempts { edges { node { attempt session { name } } } }
        events { edges { cursor node { type } } } parentSession { id } rootSession { sessionId }
        retryDecision { reason } image queue { name project { name } } } }
        pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } }"""
    found, after = [], None
    while True:
        page = graph.ask(query, after=after)["sessions"]
        found += [each["sessionId"] for each in nodes(page)]
        after = page["pageInfo"]["endCursor"]
        if not page["pageInfo"]["hasNextPage"]:
            break
    assert found == [str(each.pk) for each in reversed(made)]


def test_a_junk_cursor_is_told(graph: Graph) -> None:
    error = graph.refused('{ sessions(after: "junk") { edges { cursor } } }')
    assert error["extensions"]["code"] == "NOT_FOUND"


def test_no_order_is_the_usual_one(graph: Graph, at: Project) -> None:
    made = [str(factories.submit(at).pk) for _ in range(2)]
    asked = "{ sessions(orderBy: null) { edges { node { sessionId } } } }"
    assert [each["sessionId"] for each in nodes(graph.ask(asked)["sessions"])] == made[::-1]
