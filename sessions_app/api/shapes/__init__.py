"""The schemas of answers, for the documents. render/ makes the answers."""
