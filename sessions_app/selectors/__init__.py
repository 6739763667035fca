"""Reads that several doors share; the first argument is who asks. Nothing is written."""
