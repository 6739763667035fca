"""Pages of users that tell of leases and rounds. What tells of sessions alone is in
`sessions_app/web/`, and what operators look at in `reprise/operations/`."""
