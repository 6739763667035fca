"""What runs sessions: a folder for each kind of place. The agent that asks them is above."""
