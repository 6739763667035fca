"""Submitting a session, with the server's warnings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from reprise_client.cli.output import note

if TYPE_CHECKING:
    from reprise_client.api import Client
    from reprise_client.models import Session


def submit(client: Client, body: Mapping[str, Any]) -> Session:
    """Submit a session, and print on standard error which fields have no effect."""
    session = client.session_create(**body)
    for warning in session.warnings:
        note(f"warning: {warning}", "yellow")
    return session
