"""The author of a change, and the door it came through. Entries are read in selectors/."""
