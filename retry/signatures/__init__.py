"""Signatures: the same failure, recognised. Which text tells it, and what of that text may vary."""
