"""The agent: it takes leases, starts runs and sends reports.

One main thread owns every run and starts every process: all calls of these modules are on it. Other
threads talk to the server (`leases`, `reports-0`, `reports-1`, `output`) and post what it answers
to the inbox.
"""
