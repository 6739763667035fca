"""API tokens and the limits of their calls. authorization.py says who may do what."""
