"""The load of `make demo-scale` and its judgement. Production runs none of it."""
