"""Estimates read side by side: decodings, protocols, questions, and the summary of a run."""
