"""Log lines of every process: both sides import this, which imports neither."""
