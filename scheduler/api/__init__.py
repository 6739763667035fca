"""The doors to executors: their wire, REST, GraphQL. The rules are in services/."""
