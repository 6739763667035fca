"""All parts of the server in one command. Production runs them as separate processes."""
