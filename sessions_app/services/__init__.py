"""All writes, each in one transaction. Services know nothing of HTTP."""
