"""How a run ended: facts and their cause. What follows from them is decided in engine/."""
