"""Self-contained HTML pages on what models leak, a picture, and an index of runs."""
