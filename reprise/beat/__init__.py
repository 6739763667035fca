"""The beat process: sends periodic tasks, and runs urgent ones itself. Tasks are in tasks.py."""
