"""The driver that only says that sessions run, as a script tells. It starts nothing."""
