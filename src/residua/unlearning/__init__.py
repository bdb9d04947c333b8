"""Training: models that know a data set, and models that leak less of it."""

from residua.unlearning.settings import TrainingSettings
from residua.unlearning.training import Progress
from residua.unlearning.verbs import Trained, finetune, unlearn

__all__ = ["Progress", "Trained", "TrainingSettings", "finetune", "unlearn"]
