"""Scores of completions, and what orders and corrects them."""
