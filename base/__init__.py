"""What server and executor have in common; it imports nothing of ours."""
