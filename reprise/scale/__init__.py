"""The load of `make demo-scale` and its judgement. Production does not use it."""
