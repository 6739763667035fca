"""The doors: REST, GraphQL, the wire of executors, pages, admin, forms.

Rules are in `services/` of the rooms below, reads in their `selectors/`.
"""
