"""The version of the configuration that retries are decided by."""

from django.db import models


class ConfigVersion(models.Model):
    """One row, with another random version after each change of that configuration.

    Triggers of the tables write it (`migrations/sql/config_version.sql`), whoever changes them. So
    a process may keep what it has read, by version: `in_force/retry_scope.py`.
    """

    id = models.SmallIntegerField(primary_key=True)
    version = models.UUIDField()

    def __str__(self) -> str:
        return str(self.version)
