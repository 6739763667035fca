"""Saves what people configure: tenants, queues, policies. in_force/ reads what applies."""
