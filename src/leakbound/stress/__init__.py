"""Stresses: what a model leaks after fine-tuning, rounding or pruning, or under other prompts."""

from leakbound.stress.bench import Bench, Stress
from leakbound.stress.family import STRESSES, USUAL, named_stress, stresses_of

__all__ = ["STRESSES", "USUAL", "Bench", "Stress", "named_stress", "stresses_of"]
