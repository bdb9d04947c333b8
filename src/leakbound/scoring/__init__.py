"""Score completions, order their draws for bounds, and correct for a judge's errors."""
