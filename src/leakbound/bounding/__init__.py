"""Compute every bound of a run, as rows of the table of estimates."""
