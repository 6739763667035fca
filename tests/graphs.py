"""The GraphQL door for tests."""

from typing import Any

from tests.agent import Api

ADDRESS = "/graphql/"


class Graph(Api):
    """A GraphQL client with a token."""

    def send(self, query: str, **variables: Any) -> Any:
        """The response."""
        return self.post(ADDRESS, {"query": query, "variables": variables})

    def ask(self, query: str, **variables: Any) -> Any:
        """The data of a query that has to work."""
        response = self.send(query, **variables)
        body = response.json()
        assert response.status_code == 200, body
        assert "errors" not in body, body
        return body["data"]

    def refused(self, query: str, **variables: Any) -> Any:
        """The only error of a query that has to fail."""
        (error,) = self.send(query, **variables).json()["errors"]
        return error


def nodes(connection: Any) -> list[Any]:
    """The nodes of a page."""
    return [edge["node"] for edge in connection["edges"]]
