"""From the end of an attempt to the next attempt. What people ask for is in sessions/."""
