"""Statements about a run: every bound, as rows of one table."""
