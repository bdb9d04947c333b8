"""Query a model for training: `LeakageProbe` measures its leakage during training.

The random numbers of the measurement are keyed, so the random state of training
does not change.
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
from leakbound.types import Decoding, Draws, Failure, Prompt, Query, Sample
from leakbound.unlearning.examples import ExampleRows
from leakbound.unlearning.settings import Watch


def answered(results: Iterable[Sample | Failure], when: str) -> Iterator[Sample]:
    """Yield the samples as they finish; IncompleteError if a query failed."""
    for result in results:
        if isinstance(result, Failure):
            raise IncompleteError(f"query {result.query.id!r} failed {when}: {result.reason}")
        yield result


_SCORER = "rouge-l-recall"
Summary = Callable[[list[float], list[int]], Any]  # scores, their counts -> one number


@dataclass(frozen=True, slots=True)
class LeakageProbe:
    """Measures a model in training on the first rows of each split.

    `p_max SPLIT`: the largest next-token probability, averaged over each true answer's tokens, then
    over answers. `ED SPLIT`: mean + 2 standard deviations of the ROUGE-L recall of sampled answers,
    averaged over questions. `utility SPLIT`: the mean ROUGE-L recall of greedy answers. ED is
    measured on the first split, which is to be forgotten, and utility on the others. An output
    whose answer is missing scores 0.
    """

    loaded: LoadedModel
    prompting: Prompting
    prompts: Mapping[str, Sequence[Prompt]]
    data: Mapping[str, ExampleRows]
    watch: Watch
    seed: int

    def __call__(self) -> dict[str, float]:
        """Return every figure by its name, without changing training's random state."""
        engine = TransformersEngine(self.loaded, self.prompting)
        figures = {f"p_max {split}": self._confidence(split) for split in self.prompts}
        lead, *others = self.prompts
        figures[f"ED {lead}"] = self._mean(
            engine,
            lead,
            1.0,
            self.watch.draws,
            lambda *of: stats.expectation_deviation(stats.Rows.of(*of)),
        )
        for split in others:
            figures[f"utility {split}"] = self._mean(
                engine, split, 0.0, 1, lambda scores, _: scores[0]
            )
        return figures

    def _confidence(self, split: str) -> float:
        examples = self.data[split].examples[: self.watch.questions]
        pairs = [(example.prompt, example.answer) for example in examples]
        readings = Reader(self.loaded, self.prompting, shares=False).read_ids(pairs)
        each = (readings[pair] for pair in pairs)
        return fmean(math.nan if read is None else float(read.confidence.mean()) for read in each)

    def _mean(
        self, engine: TransformersEngine, split: str, temperature: float, draws: int, of: Summary
    ) -> float:
        """Return the mean over questions of the summary `of` of the scores of their answers."""
        decoding = Decoding(temperature=temperature, max_new_tokens=self.watch.max_new_tokens)
        wanted = Draws(sizes=(draws,), seed=self.seed, purpose="training")
        scorer, values = make_scorer(_SCORER), []
        prompts = {prompt.id: prompt for prompt in self.prompts[split][: self.watch.questions]}
        queries = [*map(Query.original, prompts.values())]
        for sample in answered(engine.generate(queries, decoding, wanted), "during training"):
            outputs = [readable(completion) for completion in sample.completions]
            prompt = prompts[sample.query.prompt_id]
            scored = score_outputs(scorer, outputs, [prompt] * len(outputs))
            scores = [score or 0.0 for score in scored]
            values.append(of(scores, [completion.count for completion in sample.completions]))
        return fmean(values)
