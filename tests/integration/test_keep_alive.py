"""Connections outlive the pauses between two calls, so that no call meets one that just ends."""

import http.client
import time

import pytest
from django.core.wsgi import get_wsgi_application

from reprise.front.server import KEEP_ALIVE_SECONDS, Server
from reprise.standalone.web import Web, listen
from tests.acceptance.running import ROOT

pytestmark = pytest.mark.django_db(transaction=True)

CONNECTIONS = 20
PAUSES = (4.9, 5.0, 5.1)
"""Around the 5 s of uvicorn itself, which are those of httpx, too."""


def test_calls_at_some_distance_come_by_one_connection() -> None:
    with listen("127.0.0.1", 0) as listener:
        web = Web(get_wsgi_application(), listener)
        web.start()
        port = listener.getsockname()[1]
        made = [http.client.HTTPConnection("127.0.0.1", port) for _ in range(CONNECTIONS)]
        try:
            for pause in (*PAUSES, 0.0):
                for each in made:
                    each.request("GET", "/healthz")
                    assert each.getresponse().read()
                    # It was told not to connect anew: a closed one is an error.
                    each.auto_open = 0
                time.sleep(pause)
        finally:
            for each in made:
                each.close()
            web.stop()


def test_servers_keep_them_longer_than_proxies() -> None:
    assert KEEP_ALIVE_SECONDS > 600
    text = (ROOT / "deploy" / "gunicorn.conf.py").read_text()
    assert f"\nkeepalive = {KEEP_ALIVE_SECONDS}\n" in text
    # All servers but gunicorn are of this kind: standalone's and `manage.py front`.
    server = Server(get_wsgi_application(), grace=1)
    assert server.config.timeout_keep_alive == KEEP_ALIVE_SECONDS
