"""Settings that apply now: switches, bounds, policies, quotas. services/resources/ saves them."""
