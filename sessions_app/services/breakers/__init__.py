"""Breakers: counting what opens them, opening, probing and closing them. Retries that they hold are
in `services/chains/breaker_holds.py`."""
