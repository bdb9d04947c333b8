"""What becomes of forgetting: a model trained on, rounded, pruned, or asked in another way."""

from leakbound.stress.bench import Bench, Stress
from leakbound.stress.family import STRESSES, USUAL, named_stress, stresses_of

__all__ = ["STRESSES", "USUAL", "Bench", "Stress", "named_stress", "stresses_of"]
