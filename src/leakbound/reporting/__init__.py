"""Self-contained HTML pages on the leakage of models, a picture, and an index of runs."""
