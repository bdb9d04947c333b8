"""What an evaluation is asked for, as frozen values."""
