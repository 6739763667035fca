"""Who makes a change, and through which door. The entries are read in selectors/."""
