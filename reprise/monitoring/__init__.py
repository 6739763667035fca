"""Metrics and health for the monitoring of operators. Pages for people are in admin_site/."""
