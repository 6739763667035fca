"""What sessions may say of their pods. Pure: the server asks it at creation, executors once more.

The only room that both sides of the wire import; it imports none.
"""
