"""API tokens, and how often they may call. Who may do what is in authorization.py."""
