"""The ASGI front: calls that wait or stream hold no thread. Other calls go to WSGI."""
