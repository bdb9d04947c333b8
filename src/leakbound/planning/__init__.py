"""Planning: the request of an evaluation as frozen values."""
