"""The report: self-contained HTML pages on what models leak, a picture, an index of runs."""
