"""What a policy may say, and which rule matches. What a chain has spent is in engine/."""
