"""Metrics and health, for the systems of operators. Pages for people are in admin_site/."""
