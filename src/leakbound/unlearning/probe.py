"""Query a model during its training: `LeakageProbe` measures the model's leakage.

The random numbers of a measurement have their own keys, so a measurement does not change the random
state of training.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from leakbound import stats
from leakbound.engines.hf import TransformersEngine
from leakbound.engines.loading import LoadedModel
from leakbound.engines.prompting import Prompting
from leakbound.engines.reading import Reader
from leakbound.errors import IncompleteError
from leakbound.scorers import make_scorer, readable, score_outputs
from leakbound.types import Decoding, Draws, Failure, Generate, Prompt, Query, Sample
from leakbound.unlearning.examples import ExampleRows
from leakbound.unlearning.settings import Watch


def answered(results: Iterable[Sample | Failure], when: str) -> Iterator[Sample]:
    """Yield the samples as they finish; raise IncompleteError if a query failed."""
    for result in results:
        if isinstance(result, Failure):
            raise IncompleteError(f"query {result.query.id!r} failed {when}: {result.reason}")
        yield result


GREEDY = Draws(sizes=(1,), purpose="training")
Summary = Callable[[list[float], list[int]], Any]  # scores, their counts -> one number


def mean_recall(
    engine: Generate,
    prompts: Sequence[Prompt],
    max_new_tokens: int,
    *,
    draws: Draws = GREEDY,
    of: Summary | None = None,
) -> float:
    """Return the mean over questions of the ROUGE-L recall of their greedy answers.

    With a summary `of`, answers are sampled at T = 1. `of(scores, counts)` is then the value of a
    question. An output whose answer is missing scores 0. Raises IncompleteError if the model cannot
    be queried.
    """
    decoding = Decoding(temperature=0.0 if of is None else 1.0, max_new_tokens=max_new_tokens)
    scorer, values = make_scorer("rouge-l-recall"), []
    by_id = {prompt.id: prompt for prompt in prompts}
    results = engine.generate([*map(Query.original, prompts)], decoding, draws)
    for sample in answered(results, "during training"):
        outputs = [readable(completion) for completion in sample.completions]
        scored = score_outputs(scorer, outputs, [by_id[sample.query.prompt_id]] * len(outputs))
        scores = [score or 0.0 for score in scored]
        counts = [completion.count for completion in sample.completions]
        values.append(scores[0] if of is None else of(scores, counts))
    return fmean(values)


@dataclass(frozen=True, slots=True)
class LeakageProbe:
    """Measures a model during training on the first rows of each split.

    There are three numbers. `p_max SPLIT` is the largest next-token probability, averaged over each
    true answer's tokens, then over answers. `ED SPLIT` is the mean plus 2 standard deviations of
    the ROUGE-L recall of sampled answers, averaged over questions. `utility SPLIT` is the mean
    ROUGE-L recall of greedy answers. ED is measured on the first split, which the model shall
    forget, and utility on all other splits. An output whose answer is missing scores 0.
    """

    loaded: LoadedModel
    prompting: Prompting
    prompts: Mapping[str, Sequence[Prompt]]
    data: Mapping[str, ExampleRows]
    watch: Watch
    seed: int

    def __call__(self) -> dict[str, float]:
        """Return the numbers by their names, without changing the random state of training."""
        engine = TransformersEngine(self.loaded, self.prompting)
        figures = {f"p_max {split}": self._confidence(split) for split in self.prompts}
        lead, *others = self.prompts
        figures[f"ED {lead}"] = mean_recall(
            engine,
            self.prompts[lead][: self.watch.questions],
            self.watch.max_new_tokens,
            draws=Draws(sizes=(self.watch.draws,), seed=self.seed, purpose="training"),
            of=lambda *drawn: stats.expectation_deviation(stats.Rows.of(*drawn)),
        )
        for split in others:
            prompts = self.prompts[split][: self.watch.questions]
            figures[f"utility {split}"] = mean_recall(engine, prompts, self.watch.max_new_tokens)
        return figures

    def _confidence(self, split: str) -> float:
        examples = self.data[split].examples[: self.watch.questions]
        pairs = [(example.prompt, example.answer) for example in examples]
        readings = Reader(self.loaded, self.prompting, shares=False).read_ids(pairs)
        each = (readings[pair] for pair in pairs)
        return fmean(math.nan if read is None else float(read.confidence.mean()) for read in each)
