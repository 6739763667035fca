"""Views that are kept up to date: `--watch` and `top`."""

import time
from collections.abc import Callable

from rich.console import Console, RenderableType
from rich.live import Live

from reprise_client.cli.output import console

WATCH_SECONDS = 2.0


def refresh(view: Callable[[], tuple[RenderableType, bool]]) -> None:
    """Show `view()` every two seconds until it says that nothing more will change.

    Without a terminal each view is printed below the previous one, after an empty line.
    """
    shown = console()
    if not shown.is_terminal:
        over = False
        while not over:
            made, over = view()
            shown.print(made, end="\n\n")
            if not over:
                time.sleep(WATCH_SECONDS)
        return
    with Live(console=shown, auto_refresh=False) as live:
        over = False
        while not over:
            made, over = view()
            live.update(made, refresh=True)
            if not over:
                time.sleep(WATCH_SECONDS)


def whole_screen(shown: Console, view: Callable[[], RenderableType], every: float) -> None:
    """Show `view()` on the whole terminal every `every` seconds until Ctrl-C.

    After that the terminal is restored, with the last view at its end.
    """
    last: RenderableType = ""
    try:
        with Live(console=shown, auto_refresh=False, screen=True) as live:
            while True:
                last = view()
                live.update(last, refresh=True)
                time.sleep(every)
    except KeyboardInterrupt:
        shown.print(last)
