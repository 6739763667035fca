"""The operators' pages for the records of this room, a file for each noun."""

from scheduler.admin import executors, nodes, preemptions

__all__ = ["executors", "nodes", "preemptions"]
