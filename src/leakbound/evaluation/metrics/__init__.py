"""Metrics of a run: which are asked for, what they need read, and their values."""
