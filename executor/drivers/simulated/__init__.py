"""The driver that simulates sessions by a script. It starts nothing."""
