"""One round: which waiting sessions an executor gets. What leases do later is in services/."""
