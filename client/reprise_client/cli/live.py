"""`--watch` and `top`: an answer that is kept up to date."""

import time
from collections.abc import Callable

from rich.console import Console, RenderableType
from rich.live import Live

from reprise_client.cli.output import console

WATCH_SECONDS = 2.0


def refresh(view: Callable[[], tuple[RenderableType, bool]]) -> None:
    """Shows `view()` again every two seconds until it says that nothing more will change.

    Off a terminal each view is printed below the one before, with an empty line between.
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
    """Shows `view()` on the whole terminal, again every so many seconds, until Ctrl-C.

    What was there before comes back then, with the last view below it.
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
