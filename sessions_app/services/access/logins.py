"""Logins of browsers: Django's own sessions, which nothing else deletes if nobody logs out."""

from datetime import datetime

from django.contrib.sessions.models import Session


def logins_forget(now: datetime, limit: int) -> int:
    """Delete at most `limit` logins that have expired, the oldest first. Return their number."""
    expired = Session.objects.filter(expire_date__lt=now).order_by("expire_date")
    keys = list(expired.values_list("pk", flat=True)[:limit])
    deleted, _ = Session.objects.filter(pk__in=keys, expire_date__lt=now).delete()
    return deleted
