"""All writes, each in one transaction. No service knows of HTTP."""
