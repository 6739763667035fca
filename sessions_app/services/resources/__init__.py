"""Saves the configuration: tenants, queues, policies. in_force/ reads what applies."""
