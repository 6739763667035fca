"""The decision about one failure. The sentences that explain it are in explain/."""
