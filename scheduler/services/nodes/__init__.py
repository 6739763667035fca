"""Suspect nodes: counting how attempts end on each node, suspicions, and what operators decide."""
