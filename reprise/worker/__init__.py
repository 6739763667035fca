"""The Celery worker and its broker. The work of tasks is in the services of each room."""
