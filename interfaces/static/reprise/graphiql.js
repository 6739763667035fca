/* The page at /graphql/: GraphiQL with the browser's own session. */
"use strict";

const EXAMPLE = `# Press Ctrl+Space for what can be asked, and Ctrl+Enter to ask it.

query Newest {
  viewer { username }
  sessions(first: 10) {
    edges {
      node {
        sessionId
        name
        status
        retryState { state attempt maxAttempts }
      }
    }
    pageInfo { hasNextPage endCursor }
  }
}
`;

async function fetcher(call) {
  const answer = await fetch(location.pathname, {
    method: "POST",
    headers: {
      "Accept": "application/json",
      "Content-Type": "application/json",
      "X-CSRFToken": document.querySelector("[name=csrfmiddlewaretoken]").value,
    },
    body: JSON.stringify(call),
  });
  return answer.json();
}

ReactDOM.render(
  React.createElement(GraphiQL, { fetcher, defaultQuery: EXAMPLE }),
  document.getElementById("graphiql"),
);
