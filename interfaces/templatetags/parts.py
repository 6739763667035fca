"""What the templates of `templates/parts/` and pages made of them need."""

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()

LIVE_SECONDS = 5


@register.simple_tag
def live(address: str, select: str = "", seconds: int = LIVE_SECONDS) -> SafeString:
    """The attributes of an element that is brought up to date from `address`, every some seconds.

    Of the answer, the element that `select` finds takes its place; all of it if that is empty.
    """
    chosen = format_html(' hx-select="{}"', select) if select else ""
    return format_html(
        'data-live hx-get="{}"{} hx-trigger="every {}s" hx-swap="outerHTML"',
        address,
        chosen,
        seconds,
    )
