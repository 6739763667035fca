"""Pure: states, quotas, cursors, errors. No Django, no database."""
