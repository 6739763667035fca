"""Webhooks, from the log of events to the wire. Their operations are in api/kinds/."""
