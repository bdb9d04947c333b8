"""Train models to learn a data set, or to leak less of it."""

from leakbound.study.settings import prompting_of
from leakbound.unlearning.settings import ModelAnswers, TrainingSettings, Watch
from leakbound.unlearning.verbs import Trained, defaults_of, finetune, unlearn
from leakbound.unlearning.weights import Adapters, Weights

__all__ = [
    "Adapters",
    "ModelAnswers",
    "Trained",
    "TrainingSettings",
    "Watch",
    "Weights",
    "defaults_of",
    "finetune",
    "prompting_of",
    "unlearn",
]
