"""The simulation of policies as a call. The simulation itself is in retry/."""
