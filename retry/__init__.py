"""Pure: what comes after a failure? No Django, no I/O; time and randomness are arguments."""
