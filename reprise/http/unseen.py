"""Pages on which the characters that nobody sees are marked.

Names, messages, titles and logs come from users and their programs. Here they all pass, whichever
template shows them.
"""

import re
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from base.podspec.unseen import marked, may_need_marks

_KEPT = re.compile(r"(<textarea\b.*?</textarea>|<input\b[^>]*>|<option\b[^>]*>)", re.DOTALL)
"""What a form sends back as it is."""


class MarkUnseen:
    """Marks what nobody sees in the HTML that is sent: `<U+202E>`."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Return the response, marked if it is a page."""
        response = self._get_response(request)
        if not response.streaming and response.get("Content-Type", "").startswith("text/html"):
            page = response.content.decode(response.charset)
            if may_need_marks(page):
                response.content = _marked(page).encode(response.charset)
        return response


def _marked(page: str) -> str:
    parts = _KEPT.split(page)
    # Every second part is kept.
    parts[::2] = [marked(part, "&lt;U+{:04X}&gt;") for part in parts[::2]]
    return "".join(parts)
