"""Reads that several doors share; the first argument is the actor. Nothing is written."""
