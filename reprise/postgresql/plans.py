"""Statements whose prepared plans no longer fit their tables.

After a column's type has changed, PostgreSQL refuses each prepared statement that returns it, for
as long as its connection lives. Such a connection prepares nothing any more, and the pool replaces
all of its connections when it comes back. A statement outside a transaction is executed again at
once. In a transaction the whole call begins anew, once: no connection has an old plan then.
"""

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from django.db import NotSupportedError
from django.db.backends.postgresql import base
from psycopg.errors import FeatureNotSupported
from psycopg.pq import TransactionStatus

logger = logging.getLogger(__name__)

Result = TypeVar("Result")
_REFUSES = "RevalidateCachedQuery"
"""The function of PostgreSQL that refuses; its messages may be in any language."""
_django: Any = base  # its stubs know nothing of this cursor


def is_outdated(error: BaseException | None) -> bool:
    """Return whether an error of Django or psycopg says that a prepared plan is outdated."""
    if isinstance(error, NotSupportedError):
        error = error.__cause__
    return isinstance(error, FeatureNotSupported) and error.diag.source_function == _REFUSES


class Cursor(_django.ServerBindingCursor):  # type: ignore[misc]
    """Django's cursor; an outdated plan ends the preparing of its connection."""

    def execute(self, *args: Any, **options: Any) -> Any:
        """Execute a statement; once more outside a transaction if its plan was outdated."""
        try:
            return super().execute(*args, **options)
        except FeatureNotSupported as error:
            if not is_outdated(error):
                raise
            logger.info("a table has changed: a connection is replaced")
            self.connection.prepare_threshold = None
            if self.connection.info.transaction_status != TransactionStatus.IDLE:
                self.connection.plan_failed = True
                raise
        return super().execute(*args, **options)


def tried_anew(call: Callable[[], Result]) -> Result:
    """Return the result of a call; it is tried once more if a plan was outdated."""
    try:
        return call()
    except NotSupportedError as error:
        if not is_outdated(error):
            raise
    return call()
