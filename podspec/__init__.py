"""What sessions may say of their pods. Pure: the server checks it at creation, executors again.

Both sides of the wire import this package; it imports neither.
"""
