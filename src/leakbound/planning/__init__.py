"""Plan an evaluation as frozen values that are ready to be drawn."""
