"""Check and open the models of an evaluation, and the classifier that measures fluency."""

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
    """Return the name of a model, as results show it."""
    return str(model) if isinstance(model, str | Path) else type(model).__name__


def open_model(model: Named, ready: Prepared, progress: Progress = silent) -> Generate:
    """Open a named model here or at the workers of a study; return an engine unchanged."""
    if not isinstance(model, str | Path):
        return model
    name, settings, task = str(model), ready.study.settings, ready.benchmark
    with during(progress, f"loading {short_name(name)}"):
        if ready.crew is None:
            return settings.open(name, task)
        # workers may run in other folders
        return CrewEngine(ready.crew, settings.opener(absolute(name), task))


def require_openable(model: Named, crew: Crew | None) -> None:
    """Raise InputError, before any model is loaded, for a model that cannot be opened."""
    if not isinstance(model, str | Path):
        name = type(model).__name__
        if not hasattr(model, "generate"):
            raise InputError(f"a model must be a folder, a hub name or an engine, got {model!r}.")
        if crew is not None:
            raise InputError(
                f"workers need the name of a model, got an engine, {name}. Name the model, or "
                "leave `workers` out."
            )
        return
    find("engine", ENGINES, engine_of(str(model))[0])
    if crew is not None and server_of(str(model)) is not None:
        raise InputError(
            f"`{model}` runs on a server. If a worker is lost, the next worker would repeat its "
            "requests and replace its draws. Leave the workers out."
        )


def require_there(model: Named) -> None:
    """Raise InputError, before another model is loaded, if a model's files do not exist."""
    if isinstance(model, str | Path):
        engine, where = engine_of(str(model))
        if engine == "transformers":
            from leakbound.engines.files import ModelFiles  # this import loads the hub's library

            ModelFiles.find(where)


@dataclass(frozen=True, slots=True)
class Fluency:
    """The fluency of greedy answers: the probability of the label "clean" by a classifier.

    OpenUnlearning defines it (`forget_Q_A_gibberish`, and `forget_gibberish` for MUSE, where 1 is
    clean) for a configured number of first tokens. Fluency reveals broken models, which write
    nonsense; ROUGE hardly reveals them.

    Attributes:
        clean: the index of the label "clean".
        tokens: the number of first tokens that the classifier reads.
    """

    classifier: Classify
    clean: int
    tokens: int

    @classmethod
    def open(cls, wanted: Wanted, task: Benchmark, loading: Loading) -> Fluency | None:
        """Open the classifier that the metrics need. Its weights load on first use.

        Raises InputError for a classifier without a label "clean", or one that cannot read only the
        first tokens of a text. `loading`: see `OpenModels`.
        """
        if not wanted.classifiers:
            return None
        (named,) = wanted.classifiers.values()
        classifier = OpenModels(**loading).classify(named or CLASSIFIER)
        if not isinstance(classifier, Truncates):
            raise InputError(
                f"{classifier.name!r} does not truncate texts, but fluency is measured on their "
                "beginnings. Name a sequence classifier."
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
        """Return the probability that each text is clean; blanks at both ends are ignored."""
        rows = self.classifier.classify([(text.strip(), None) for text in texts])
        return [float(row[self.clean]) for row in rows]

    def to_dict(self) -> dict[str, Any]:
        """Return everything that the numbers depend on, for the record."""
        fingerprint = getattr(self.classifier, "fingerprint", {})
        return {"model": self.classifier.name, "tokens": self.tokens, **fingerprint}
