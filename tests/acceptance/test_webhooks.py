"""Webhooks as a user meets them: the command, a running server with its worker, and a receiver."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.running import Standalone, clean_environ, ended, submit
from tests.receiver import receiving
from tests.waiting import until

pytestmark = pytest.mark.slow

REPRISE = str(Path(sys.executable).with_name("reprise"))


def test_a_session_is_told_of_from_its_beginning_to_its_end(standalone: Standalone) -> None:
    credentials = standalone.credentials
    environ = clean_environ(REPRISE_URL=credentials["url"], REPRISE_TOKEN=credentials["token"])

    def reprise(*arguments: str) -> str:
        command = [REPRISE, "webhook", *arguments]
        return subprocess.run(
            command, env=environ, check=True, stdout=subprocess.PIPE, text=True, timeout=120
        ).stdout

    with receiving() as receiver:
        secret = reprise("create", receiver.url).strip()
        (hook,) = standalone.client.webhooks()
        try:
            assert "answers 204" in reprise("ping", hook.id)
            session = submit(standalone.client, "true")
            ended(standalone.client, session)
            expected = [event.id for event in standalone.client.events(session)]

            def received() -> list[int]:
                came = [got.event for got in receiver.got]
                return [event["id"] for event in came if event.get("session_id") == session]

            until(lambda: len(received()) >= len(expected), "all of it has come")
            assert received() == expected
            assert all(got.verified(secret) for got in receiver.got)
        finally:
            reprise("delete", hook.id, "--yes")
