"""The recipes of CONTRIBUTING.md: what they name is there, and one is followed."""
