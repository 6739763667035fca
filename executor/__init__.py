"""The agent that runs sessions beside a cluster; it knows the server by its URL alone."""
