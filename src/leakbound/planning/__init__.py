"""Planning: an evaluation as frozen values, ready to be drawn."""
