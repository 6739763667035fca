"""A failure comes in, a decision goes out. The sentences about it are in explain/."""
