"""Check and open the models of an evaluation and the classifier that measures fluency."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakbound.benchmarks import Benchmark
from leakbound.engines import ENGINES, absolute, engine_of
from leakbound.engines.addresses import server_of, short_name
from leakbound.engines.crew import CrewEngine
from leakbound.engines.models import OpenModels
from leakbound.errors import InputError
from leakbound.planning.metrics import Wanted
from leakbound.planning.plan import Prepared
from leakbound.registry import find
from leakbound.study import Loading
from leakbound.types import Classify, Crew, Generate, Progress, Truncates, during, silent

CLASSIFIER = "madhurjindal/autonlp-Gibberish-Detector-492513457"
CLEAN = "clean"
_TOKENS, _TOKENS_OF = 32, {"muse": 512}  # number of first tokens that are classified


Named = str | Path | Generate
"""A model as a folder, a hub name or an engine; a control can also be a finished run."""


def name_of(model: Named) -> str:
    """Return the name by which results refer to a model."""
    return str(model) if isinstance(model, str | Path) else type(model).__name__


def open_model(model: Named, ready: Prepared, progress: Progress = silent) -> Generate:
    """Open a named model in this process or in the study's workers; return an engine unchanged."""
    if not isinstance(model, str | Path):
        return model
    name, settings, task = str(model), ready.study.settings, ready.benchmark
    with during(progress, f"loading {short_name(name)}"):
        if ready.crew is None:
            return settings.open(name, task)
        # workers may run in other folders
        return CrewEngine(ready.crew, settings.opener(absolute(name), task))


def require_openable(model: Named, crew: Crew | None) -> None:
    """Raise InputError for a model that cannot be opened. No model is loaded."""
    if not isinstance(model, str | Path):
        name = type(model).__name__
        if not hasattr(model, "generate"):
            raise InputError(f"a model must be a folder, a hub name or an engine, got {model!r}.")
        if crew is not None:
            raise InputError(
                f"workers need the name of a model, got an engine, {name}. Pass the model's name, "
                "or omit `workers`."
            )
        return
    find("engine", ENGINES, engine_of(str(model))[0])
    if crew is not None and server_of(str(model)) is not None:
        raise InputError(
            f"`{model}` is on a server, so workers cannot draw from it: repeating a lost worker's "
            "requests would replace its draws. Omit the workers."
        )


def require_there(model: Named) -> None:
    """Raise InputError if the files of a model do not exist. No model is loaded."""
    if isinstance(model, str | Path):
        engine, where = engine_of(str(model))
        if engine == "transformers":
            from leakbound.engines.files import ModelFiles  # this import loads the hub's library

            ModelFiles.find(where)


@dataclass(frozen=True, slots=True)
class Fluency:
    """The fluency of greedy answers: the probability of the label "clean" by a classifier.

    OpenUnlearning defines this metric as `forget_Q_A_gibberish`, and as `forget_gibberish` for
    MUSE, where 1 is clean. The classifier gets the first tokens of each answer, up to a fixed
    number. Fluency detects broken models that write nonsense; ROUGE hardly detects them.

    Attributes:
        clean: the index of the label "clean".
        tokens: the maximum number of tokens of an answer that the classifier gets.
    """

    classifier: Classify
    clean: int
    tokens: int

    @classmethod
    def open(cls, wanted: Wanted, task: Benchmark, loading: Loading) -> Fluency | None:
        """Open the classifier that the metrics need. Its weights are loaded at its first use.

        Raises InputError for a classifier that has no label "clean" or cannot truncate texts.
        `loading`: see `OpenModels`.
        """
        if not wanted.classifiers:
            return None
        (named,) = wanted.classifiers.values()
        classifier = OpenModels(**loading).classify(named or CLASSIFIER)
        if not isinstance(classifier, Truncates):
            raise InputError(
                f"fluency needs a classifier that truncates long texts, but {classifier.name!r} "
                "does not truncate them. Use a sequence classifier."
            )
        labels = [label.casefold() for label in classifier.labels]
        if labels.count(CLEAN) != 1:
            raise InputError(
                f"one label of {classifier.name!r} must be {CLEAN!r}, got "
                f"{', '.join(classifier.labels)}. Name a gibberish classifier."
            )
        tokens = _TOKENS_OF.get(task.name.partition(":")[0], _TOKENS)
        return cls(classifier.truncated(tokens), labels.index(CLEAN), tokens)

    def of(self, texts: Sequence[str]) -> list[float]:
        """Return the probability that each text is clean. Blanks at both ends are ignored."""
        rows = self.classifier.classify([(text.strip(), None) for text in texts])
        return [float(row[self.clean]) for row in rows]

    def to_dict(self) -> dict[str, Any]:
        """Return the classifier, its number of tokens and its digests, for the record."""
        fingerprint = getattr(self.classifier, "fingerprint", {})
        return {"model": self.classifier.name, "tokens": self.tokens, **fingerprint}
