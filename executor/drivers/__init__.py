"""The drivers that run sessions, one folder for each kind of place. The agent stands above."""
