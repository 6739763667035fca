"""`/graphql/`: the records as a graph. Only GraphQL packages import graphene."""
