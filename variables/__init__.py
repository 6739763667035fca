"""Typed variables of the environment: both sides declare theirs so; this imports neither."""
