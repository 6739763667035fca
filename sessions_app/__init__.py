"""The records. Clusters and leases are in scheduler/, the doors to both in interfaces/."""
