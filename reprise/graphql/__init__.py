"""The GraphQL schema as a whole, and its view. The types are in the api/ of each room."""
