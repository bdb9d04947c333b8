"""How fluent greedy answers are: what a classifier of gibberish makes of them.

As OpenUnlearning measures it (its `forget_Q_A_gibberish` and MUSE's `forget_gibberish`, where 1 is
clean): the probability of the label "clean", of so many first tokens as its configuration has. A
model that unlearned by breaking answers nothing, and loses little ROUGE by it; this tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from leakbound.benchmarks import Benchmark
from leakbound.engines.models import OpenModels
from leakbound.errors import InputError
from leakbound.evaluation.planning.metrics import Wanted
from leakbound.study import Loading
from leakbound.types import Classify, Truncates

CLASSIFIER = "madhurjindal/autonlp-Gibberish-Detector-492513457"
CLEAN = "clean"
_TOKENS, _TOKENS_OF = 32, {"muse": 512}  # looked at, by the family of a benchmark


@dataclass(frozen=True, slots=True)
class Fluency:
    """A classifier, which of its labels is the clean one, and how many tokens it looks at."""

    classifier: Classify
    clean: int
    tokens: int

    @classmethod
    def open(cls, wanted: Wanted, task: Benchmark, loading: Loading) -> Fluency | None:
        """The one that the metrics want; None where they want none. Its weights load when asked.

        InputError for a classifier without a label "clean", or one that cannot look at the first
        tokens of a text alone. `loading`: see `OpenModels`.
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
        found = self.classifier.classify([(text.strip(), None) for text in texts])
        return [float(row[self.clean]) for row in found]

    def to_dict(self) -> dict[str, Any]:
        """What makes the numbers, for the record."""
        fingerprint = getattr(self.classifier, "fingerprint", {})
        return {"model": self.classifier.name, "tokens": self.tokens, **fingerprint}
