"""From the end of an attempt to the next attempt. Actions that people ask for are in sessions/."""
