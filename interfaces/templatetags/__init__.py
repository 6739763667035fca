"""Filters and tags with which the web pages show values to people."""
