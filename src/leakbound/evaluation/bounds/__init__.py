"""Bounds of a question's leakage and of all questions together, by the way an arm was drawn."""
