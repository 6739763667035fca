"""The records and the doors to them. Clusters and leases are in scheduler/."""
