"""How `docs/openapi.yaml` is made and shown. What it says stands at each view."""
