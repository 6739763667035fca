"""Forms and texts that admin/ and web/ share; each of the two has its own look. No requests."""
