"""How the server reaches PostgreSQL: Django's backend with its pool, and other connections."""
