"""The `reprise` command."""
