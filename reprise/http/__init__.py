"""Concerns of every HTTP call: hosts, limits, the request log. Single calls are in api/."""
