"""Planning: what an evaluation is asked for, as frozen values."""
