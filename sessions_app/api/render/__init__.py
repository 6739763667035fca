"""Records as the JSON of the contract. The schema of that JSON is in shapes/."""
