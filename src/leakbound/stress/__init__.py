"""Stresses: fine-tune, round or prune a model, or change its prompts, before it is evaluated."""

from leakbound.stress.bench import Bench, Stress
from leakbound.stress.family import STRESSES, USUAL, named_stress, stresses_of

__all__ = ["STRESSES", "USUAL", "Bench", "Stress", "named_stress", "stresses_of"]
