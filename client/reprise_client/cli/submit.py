"""Submitting a session, with what the server has to say about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from reprise_client.cli.output import note

if TYPE_CHECKING:
    from reprise_client.api import Client
    from reprise_client.models import Session


def submit(client: Client, body: Mapping[str, Any]) -> Session:
    """Submits a session; what of the request has no effect is said on standard error."""
    session = client.session_create(**body)
    for warning in session.warnings:
        note(f"warning: {warning}", "yellow")
    return session
