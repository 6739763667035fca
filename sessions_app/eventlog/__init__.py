"""How the log of events is read. Events are written in services/write/."""
