"""Reading of the event log. services/write/ writes it."""
