"""The doors to executors: their wire protocol, REST and GraphQL. The rules are in services/."""
