"""Training: models that know a data set, and models that leak less of it."""

from residua.unlearn.settings import TrainingSettings
from residua.unlearn.training import Progress
from residua.unlearn.verbs import Trained, finetune, unlearn

__all__ = ["Progress", "Trained", "TrainingSettings", "finetune", "unlearn"]
