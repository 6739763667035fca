"""The REST views, by noun."""
