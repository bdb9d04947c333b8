"""What the model in training answers itself: drawn anew for every pass, and scored.

The draws must come from the weights that the pass then differentiates, so they are made when the
pass is, never ahead. Dropout is off meanwhile, and random numbers are keyed by the number of the
pass: training's own chance is left alone, and a training that goes on draws what it would have.
`LeakageProbe` measures by the way, with draws of its own, what the model still says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from leakbound.engines.hf import TransformersEngine
from leakbound.engines.loading import LoadedModel
from leakbound.engines.prompting import Prompting
from leakbound.errors import IncompleteError
from leakbound.losses import Needs
from leakbound.scorers import make_scorer, score_texts
from leakbound.stats import expectation_deviation
from leakbound.types import Completion, Decoding, Draws, Failure, Prompt, Query, Sample, Scorer
from leakbound.unlearning.batches import Assembly, ScoredAnswers, as_it_is
from leakbound.unlearning.examples import Rows, Step
from leakbound.unlearning.forward import Forward
from leakbound.unlearning.settings import Sampling, Watch

_Scored = list[tuple[Completion, float]]


@dataclass(frozen=True)
class OwnAnswers:
    """Asks the model of `engine` the `prompts` of each split; `data` are the same as tokens."""

    engine: TransformersEngine
    prompts: Mapping[str, Sequence[Prompt]]
    data: Mapping[str, Rows]
    sampling: Sampling
    seed: int

    @property
    def decoding(self) -> Decoding:
        """T = 1 and nothing truncated: the law whose gradient is taken."""
        return Decoding(max_new_tokens=self.sampling.max_new_tokens)

    @cached_property
    def scorer(self) -> Scorer:
        """The scorer that sampling names, made once."""
        return self.sampling.open_scorer(self.engine.loaded.model.device.type)

    def check(self) -> None:
        """Raise what opening the scorer does, and InputError for a prompt too long to answer."""
        self.scorer  # noqa: B018 (opened before training begins)
        for prompts in self.prompts.values():
            self.engine.check([*map(Query.original, prompts)], self.decoding)

    def __call__(self, step: Step, number: int) -> dict[str, ScoredAnswers]:
        """Answers to the rows of a step, which is number `number`; the same for the same weights.

        Raises IncompleteError where the model cannot be asked.
        """
        with _without_dropout(self.engine.loaded.model):
            return {split: self._drawn(split, step[split], number) for split in self.prompts}

    def _drawn(self, split: str, rows: Sequence[int], number: int) -> ScoredAnswers:
        prompts = [self.prompts[split][row] for row in rows]
        draws = Draws(sizes=(self.sampling.draws,), seed=self.seed, purpose=f"leakmin {number}")
        scored = {
            prompt.id: _scored(self.scorer, prompt, sample.completions)
            for prompt, sample in ask(self.engine, prompts, self.decoding, draws)
        }
        found = [scored[prompt.id] for prompt in prompts]
        learnt = [
            (place, completion, score)
            for place, each in enumerate(found)
            if len({score for _, score in each}) > 1  # else there is no gradient
            for completion, score in each
        ]
        examples = self.data[split].examples
        return ScoredAnswers(
            examples=[
                replace(
                    examples[rows[place]],
                    # what was drawn from, which a row's own answer may have merged with
                    prompt=self.engine.prompt_ids(Query.original(prompts[place])),
                    answer=completion.token_ids or (),
                )
                for place, completion, _ in learnt
            ],
            owner=[place for place, _, _ in learnt],
            counts=[completion.count for _, completion, _ in learnt],
            scores=[score for _, _, score in learnt],
            leakage=[*map(_mean, found)],
        )


def sampled_splits(needs: Mapping[str, Needs]) -> tuple[str, ...]:
    """The splits to whose prompts the model's own answers are needed."""
    return tuple(split for split, each in needs.items() if "sampled" in each.parts)


def ask(
    engine: TransformersEngine, prompts: Sequence[Prompt], decoding: Decoding, draws: Draws
) -> Iterator[tuple[Prompt, Sample]]:
    """Each distinct prompt with its sample, as they finish; IncompleteError where one fails."""
    by_id = {prompt.id: prompt for prompt in prompts}
    queries = [*map(Query.original, by_id.values())]
    for sample in answered(engine.generate(queries, decoding, draws), "during training"):
        yield by_id[sample.query.prompt_id], sample


def answered(results: Iterable[Sample | Failure], when: str) -> Iterator[Sample]:
    """The samples, as they finish; IncompleteError where a query could not be asked."""
    for result in results:
        if isinstance(result, Failure):
            raise IncompleteError(f"{result.query.id!r} could not be asked {when}: {result.reason}")
        yield result


def _scored(scorer: Scorer, prompt: Prompt, completions: Sequence[Completion]) -> _Scored:
    """The completions that could be scored, each with its score."""
    scores = score_texts(scorer, [completion.text for completion in completions], prompt)
    pairs = zip(completions, scores, strict=True)
    return [(completion, score) for completion, score in pairs if score is not None]


def _mean(scored: _Scored) -> float | None:
    """The mean score of all draws that have one; None where none has."""
    if not scored:
        return None
    total = sum(completion.count * score for completion, score in scored)
    return total / sum(completion.count for completion, _ in scored)


@contextmanager
def _without_dropout(model: Any) -> Iterator[None]:
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


_SCORER = "rouge-l-recall"
_BATCH = 32
Summary = Callable[[list[float], list[int]], Any]  # scores, their counts -> one number


@dataclass(frozen=True, slots=True)
class LeakageProbe:
    """Measures a model in training on the first rows of each split.

    `p_max SPLIT`: the largest next-token probability, averaged over each true answer's tokens,
    then over answers. `ED SPLIT`: mean + 2 standard deviations of the ROUGE-L recall of sampled
    answers, averaged over questions. `utility SPLIT`: the mean ROUGE-L recall of greedy answers.
    ED is of the first split, which is to be forgotten, utility of the others.
    """

    loaded: LoadedModel
    prompting: Prompting
    prompts: Mapping[str, Sequence[Prompt]]
    data: Mapping[str, Rows]
    watch: Watch
    seed: int

    @torch.no_grad()
    def __call__(self, forward: Forward) -> dict[str, float]:
        """Every figure, by name; training's random state is left alone."""
        found = {f"p_max {split}": self._confidence(split, forward) for split in self.prompts}
        lead, *others = self.prompts
        found[f"ED {lead}"] = self._mean(lead, 1.0, self.watch.draws, expectation_deviation)
        return found | {
            f"utility {s}": self._mean(s, 0.0, 1, lambda scores, _: scores[0]) for s in others
        }

    def _confidence(self, split: str, forward: Forward) -> float:
        needs = {split: Needs(frozenset({"logits"}))}
        assembly = Assembly({split: Rows(self.data[split].examples)}, needs)
        device = self.loaded.model.device
        count = min(self.watch.questions, len(self.prompts[split]))
        values = []
        for start in range(0, count, _BATCH):
            rows = list(range(start, min(start + _BATCH, count)))
            batch = assembly.batch({split: rows}).to(device)
            logits, hidden = forward(batch.padded, batch.places.nonzero(as_tuple=True))
            (made,) = assembly.cut(batch, logits, hidden, as_it_is).values()
            values.append(made.means(made.log_probs.max(dim=-1).values.exp()))
        return float(torch.cat(values).mean())

    def _mean(self, split: str, temperature: float, draws: int, of: Summary) -> float:
        """The mean over questions of what `of` makes of the scores of the answers to each."""
        engine = TransformersEngine(self.loaded, self.prompting)
        decoding = Decoding(temperature=temperature, max_new_tokens=self.watch.max_new_tokens)
        wanted = Draws(sizes=(draws,), seed=self.seed, purpose="training")
        scorer, values = make_scorer(_SCORER), []
        asked = self.prompts[split][: self.watch.questions]
        for prompt, sample in ask(engine, asked, decoding, wanted):
            texts = [completion.text for completion in sample.completions]
            scores = [score or 0.0 for score in score_texts(scorer, texts, prompt)]
            values.append(of(scores, [completion.count for completion in sample.completions]))
        return float(torch.tensor(values).mean())
