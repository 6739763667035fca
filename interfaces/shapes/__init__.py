"""The shapes of answers: for the documents, for GraphQL, and for render/, which fills them."""
