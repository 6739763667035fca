"""What applies now: switches, bounds, policies, quotas. services/resources/ saves it."""
