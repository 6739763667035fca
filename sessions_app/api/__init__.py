"""The doors of programs: REST and GraphQL. Rules are in services/, reads in selectors/."""
