"""Renders records as the JSON that shapes/ describes."""
