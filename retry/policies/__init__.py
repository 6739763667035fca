"""The content of policies, and which rule matches. engine/ knows what a chain has spent."""
