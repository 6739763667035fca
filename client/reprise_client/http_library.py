"""httpx for this package: only this module imports it.

httpx imports its own command line if what that needs is installed: click, pygments and rich. That
costs 5 MB and 0.1 s in each process, and no program that calls Reprise uses it. Without it httpx
goes on as where it is not installed.
"""

import sys

if "httpx" not in sys.modules:
    sys.modules["httpx._main"] = None  # type: ignore[assignment]
    try:
        import httpx
    finally:
        del sys.modules["httpx._main"]
else:
    import httpx

__all__ = ["httpx"]
