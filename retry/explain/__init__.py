"""Decisions in sentences, read from their traces. Nothing is decided here."""
