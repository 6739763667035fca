"""Sessions are submitted, cancelled, preempted, archived. Retries are in chains/."""
