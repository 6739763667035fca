"""Making and showing `docs/openapi.yaml`. Its content is declared at each view."""
