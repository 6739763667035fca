"""Decisions in sentences, from their traces. Nothing is decided here."""
