"""The Celery worker and its broker. What a task does is in the services of each room."""
