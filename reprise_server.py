"""`reprise-server`: Django's command line, with Reprise's settings.

It stands beside the packages, and imports none of them before it has set what interrupts do.
"""

import logging
import os
import signal
import sys
from contextlib import suppress
from importlib import metadata
from typing import NoReturn

STANDALONE = ("standalone", "demo", "demo_scale")
SERVERS = (*STANDALONE, "front", "web_process")


def main() -> None:
    # While everything is still being imported an interrupt simply ends the process: as an
    # exception it would print a traceback, or be swallowed where a library catches everything.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reprise.settings")
    if sys.argv[1:] == ["--version"]:
        # A checkout that is not installed knows no version but Django's.
        with suppress(metadata.PackageNotFoundError):
            sys.stdout.write(f"reprise {metadata.version('reprise')}\n")
            return
    if sys.argv[1:2] and sys.argv[1] in STANDALONE:
        from reprise.standalone.web_count import share_metrics  # noqa: PLC0415

        share_metrics(sys.argv[2:])
    from django.core.management import execute_from_command_line  # noqa: PLC0415

    if not set(SERVERS) & set(sys.argv[1:2]):
        signal.signal(signal.SIGINT, signal.default_int_handler)
        execute_from_command_line(sys.argv)
        return
    # These set handlers of their own, and their end waits for no thread.
    code: object = 0
    try:
        execute_from_command_line(sys.argv)
    except SystemExit as end:
        code = end.code
    _leave(code)


def _leave(code: object) -> NoReturn:
    """End the process now; at the end of `main` Python would wait for each thread of a pool.

    A thread that waits for a database which has gone is not done for long, and all that was to be
    finished has been finished by then, or was given up.
    """
    if code is not None and not isinstance(code, int):
        sys.stderr.write(f"{code}\n")
    from reprise import shared_metrics  # noqa: PLC0415

    shared_metrics.remove()
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    main()
