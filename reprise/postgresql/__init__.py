"""Django's backend for PostgreSQL, with a pool that is soon back and limits for calls."""
