"""The common parts of all REST calls: tokens, bodies, pages, problems. It names no record."""
