"""Executors and leases. What a session is, and what comes next, is in sessions_app/."""
