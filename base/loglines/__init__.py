"""Log lines of every process. Both sides of the wire import this package; it imports neither."""
