"""`/graphql/`: the records as a graph. Nothing outside of the GraphQL rooms imports graphene."""
