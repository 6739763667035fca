"""One lease round: which waiting sessions an executor gets. services/ renews and ends leases."""
