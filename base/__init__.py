"""What server, executor and client have in common; it imports nothing of ours."""
