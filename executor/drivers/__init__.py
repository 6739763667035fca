"""What runs sessions: one module for each kind of cluster."""
