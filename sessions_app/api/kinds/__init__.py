"""The plain kinds: each declares once what REST and GraphQL offer of it, and how."""
