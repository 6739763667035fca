"""Upkeep that keeps a database small, and safe after a restore. Backups are in standalone/."""
