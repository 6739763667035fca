"""The schema of answers, for the documents. The answers are made in render/."""
