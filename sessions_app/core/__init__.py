"""Pure values: states, quotas, cursors, errors. No Django, no database."""
