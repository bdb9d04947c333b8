"""Compute every bound of a run, as rows of one table."""
