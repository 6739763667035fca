"""The ASGI front: calls that wait or stream hold no thread. The other calls go to WSGI."""
