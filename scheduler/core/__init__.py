"""Pure functions: fair shares, fit, pod status. No database; the time is an argument."""
