"""The fate of what was forgotten: in a model trained on, rounded, pruned, or asked otherwise."""

from leakbound.stress.bench import Bench, Stress
from leakbound.stress.family import STRESSES, USUAL, named_stress, stresses_of

__all__ = ["STRESSES", "USUAL", "Bench", "Stress", "named_stress", "stresses_of"]
