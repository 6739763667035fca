"""What is done for each run: orders of the agent, what its pods show, their end and removal."""
