"""Webhooks, from the log of events to the wire. Their calls are in api/operations/."""
