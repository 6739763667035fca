"""The only writers of statuses, events, counters and audit entries. They decide nothing."""
