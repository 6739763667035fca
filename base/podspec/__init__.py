"""The rules on what sessions may say of their pods. Pure.

The server checks them at creation, executors again. Both sides of the wire import this package; it
imports neither.
"""
