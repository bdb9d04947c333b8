"""What holds of a run: every bound, as rows of one table."""
