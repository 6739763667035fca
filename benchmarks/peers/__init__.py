"""Other job queues with the same work: jobs that fail twice and then succeed."""
