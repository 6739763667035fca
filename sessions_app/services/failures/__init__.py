"""Counting of failures by their signatures, and of what retries were worth, from the log; and what
people say about a failure."""
