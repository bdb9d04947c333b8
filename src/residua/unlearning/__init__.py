"""Training: models that know a data set, and models that leak less of it."""

from residua.unlearning.settings import Sampling, Selecting, TrainingSettings, Watch
from residua.unlearning.taken import prompting_of
from residua.unlearning.trainer import Progress
from residua.unlearning.verbs import Trained, finetune, unlearn
from residua.unlearning.weights import Adapters, Weights

__all__ = [
    "Adapters",
    "Progress",
    "Sampling",
    "Selecting",
    "Trained",
    "TrainingSettings",
    "Watch",
    "Weights",
    "finetune",
    "prompting_of",
    "unlearn",
]
