"""A whole Reprise with executors beside two real API servers; `land.py` has them."""
