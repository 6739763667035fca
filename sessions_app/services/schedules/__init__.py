"""Schedules: saving them, and making their chains at their times or by hand."""
