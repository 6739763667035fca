"""Pages of users. What operators look at is in `reprise/operations/`."""
