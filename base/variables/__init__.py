"""Typed variables of the environment.

Both sides of the wire declare theirs with this package; it imports neither.
"""
