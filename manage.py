#!/usr/bin/env python
"""Django's command line, with Reprise's settings."""

import os
import signal
import sys

LONG_RUNNING = ("standalone", "demo")


def main() -> None:
    # While everything is still being imported an interrupt simply ends the process: as an
    # exception it would print a traceback, or be swallowed where a library catches everything.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reprise.settings")
    from django.core.management import execute_from_command_line  # noqa: PLC0415

    if not set(LONG_RUNNING) & set(sys.argv[1:2]):  # these set handlers of their own
        signal.signal(signal.SIGINT, signal.default_int_handler)
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
