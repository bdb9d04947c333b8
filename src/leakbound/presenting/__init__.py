"""Estimates read side by side, for people."""
