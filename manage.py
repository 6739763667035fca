#!/usr/bin/env python
"""`reprise-server` in a checkout, which need not be installed."""

from reprise_server import main

if __name__ == "__main__":
    main()
