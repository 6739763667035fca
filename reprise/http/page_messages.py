"""Messages to people, which pages show."""

from django.contrib.messages.middleware import MessageMiddleware
from django.http import HttpRequest

_WITHOUT = ("/api/", "/graphql/")


class PageMessages(MessageMiddleware):
    """Django's messages, for pages only.

    A request with messages is a cycle, since their storage knows it. It would be kept, with its
    body, until the garbage collector looks for it.
    """

    def process_request(self, request: HttpRequest) -> None:
        """Give the request a storage of messages, if a person may see them."""
        if not request.path.startswith(_WITHOUT):
            super().process_request(request)
