"""Writes to executors and leases. allocation/ decides who gets what."""
