"""The models of an evaluation: checked, opened, and the classifier of fluency."""

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
from leakbound.types import (
    Classify,
    Crew,
    Generate,
    Progress,
    Truncates,
    during,
    silent,
)

CLASSIFIER = "madhurjindal/autonlp-Gibberish-Detector-492513457"
CLEAN = "clean"
_TOKENS, _TOKENS_OF = 32, {"muse": 512}  # looked at, by the family of a benchmark


Named = str | Path | Generate
"""A model: a folder or hub name, or an engine; as a control also a finished run."""


def name_of(model: Named) -> str:
    """Return the name of a model in results."""
    return str(model) if isinstance(model, str | Path) else type(model).__name__


def open_model(model: Named, ready: Prepared, progress: Progress = silent) -> Generate:
    """Open a model where it is only named: here, or at the workers of a study."""
    if not isinstance(model, str | Path):
        return model
    name, settings, task = str(model), ready.study.settings, ready.benchmark
    with during(progress, f"loading {short_name(name)}"):
        if ready.crew is None:
            return settings.open(name, task)
        # workers may run in other folders
        return CrewEngine(ready.crew, settings.opener(absolute(name), task))


def require_openable(model: Named, crew: Crew | None) -> None:
    """Refuse, before any model is loaded, a model that cannot be opened here or by the workers."""
    if not isinstance(model, str | Path):
        name = type(model).__name__
        if not hasattr(model, "generate"):
            raise InputError(f"a model must be a folder, a hub name or an engine, got {model!r}.")
        if crew is not None:
            raise InputError(
                f"workers open a model by its name, and this is an engine, {name}. Name the model, "
                "or leave `workers` out."
            )
        return
    find("engine", ENGINES, engine_of(str(model))[0])
    if crew is not None and server_of(str(model)) is not None:
        raise InputError(
            f"`{model}` runs on a server, and what a worker had asked of it when it was lost, the "
            "next one would ask again: draws would be replaced. Leave the workers out."
        )


def require_there(model: Named) -> None:
    """Refuse, before another model is loaded, one whose files are not there."""
    if isinstance(model, str | Path):
        engine, where = engine_of(str(model))
        if engine == "transformers":
            from leakbound.engines.files import ModelFiles  # the hub's library loads with it

            ModelFiles.find(where)


@dataclass(frozen=True, slots=True)
class Fluency:
    """How fluent greedy answers are: what a classifier of gibberish makes of them.

    As OpenUnlearning measures it (its `forget_Q_A_gibberish` and MUSE's `forget_gibberish`, where 1
    is clean): the probability of the label "clean", of so many first tokens as its configuration
    has. A model that unlearned by breaking answers nothing, and loses little ROUGE by it.

    clean: which of the classifier's labels is the clean one.
    tokens: how many of a text it looks at.
    """

    classifier: Classify
    clean: int
    tokens: int

    @classmethod
    def open(cls, wanted: Wanted, task: Benchmark, loading: Loading) -> Fluency | None:
        """Open the classifier that the metrics need, or None. Its weights load on first use.

        InputError for a classifier without a label "clean", or one that cannot read only the first
        tokens of a text. `loading`: see `OpenModels`.
        """
        if not wanted.classifiers:
            return None
        (named,) = wanted.classifiers.values()
        classifier = OpenModels(**loading).classify(named or CLASSIFIER)
        if not isinstance(classifier, Truncates):
            raise InputError(
                f"{classifier.name!r} does not cut texts, and fluency is that of their beginnings. "
                "Name a sequence classifier."
            )
        labels = [label.casefold() for label in classifier.labels]
        if labels.count(CLEAN) != 1:
            raise InputError(
                f"one label of {classifier.name!r} must be {CLEAN!r}, got "
                f"{', '.join(classifier.labels)}. Name a classifier of gibberish."
            )
        tokens = _TOKENS_OF.get(task.name.partition(":")[0], _TOKENS)
        return cls(classifier.truncated(tokens), labels.index(CLEAN), tokens)

    def of(self, texts: Sequence[str]) -> list[float]:
        """How likely each text is clean, in [0, 1]; blanks at its ends do not count."""
        rows = self.classifier.classify([(text.strip(), None) for text in texts])
        return [float(row[self.clean]) for row in rows]

    def to_dict(self) -> dict[str, Any]:
        """All that makes the numbers, for the record."""
        fingerprint = getattr(self.classifier, "fingerprint", {})
        return {"model": self.classifier.name, "tokens": self.tokens, **fingerprint}
