"""Amounts and durations, read and written. No policy is known here."""
