"""Secrets on their way into the database and out of it. The cipher is in core/."""
