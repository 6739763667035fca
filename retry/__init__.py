"""Pure functions: what follows a failure. No Django, no I/O; time and randomness are arguments."""
