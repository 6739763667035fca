"""Sessions: submit, cancel, preempt, archive. Retries are in chains/."""
