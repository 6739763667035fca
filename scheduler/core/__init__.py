"""Pure: shares, fit, what pods show. No database; the time is an argument."""
