"""The evidence of how a run ended: facts and their cause. engine/ decides what follows."""
