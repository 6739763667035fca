"""The server's access to PostgreSQL: Django's backend with our pool, and other connections."""
