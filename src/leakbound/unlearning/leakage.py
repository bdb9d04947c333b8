"""What a model still says while it is made to forget: confidence, leakage and utility by step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from leakbound.engines.hf import TransformersEngine
from leakbound.engines.loading import LoadedModel
from leakbound.engines.prompting import Prompting
from leakbound.losses import LossInputs, Needs
from leakbound.scorers import make_scorer, score_texts
from leakbound.stats import expectation_deviation
from leakbound.types import Decoding, Draws, Prompt, Sample
from leakbound.unlearning.batches import Assembly
from leakbound.unlearning.examples import Rows
from leakbound.unlearning.forward import Forward
from leakbound.unlearning.own_answers import ask
from leakbound.unlearning.settings import Watch

_SCORER = "rouge-l-recall"
_BATCH = 32


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
        found[f"ED {lead}"] = self._leakage(lead)
        return found | {f"utility {split}": self._utility(split) for split in others}

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
            (made,) = assembly.cut(batch, logits, hidden, _as_it_is).values()
            values.append(_confidences(made))
        return float(torch.cat(values).mean())

    def _leakage(self, split: str) -> float:
        prompts = self._asked(split)
        scorer, values = make_scorer(_SCORER), []
        for prompt, sample in self._answers(prompts, self._decoding(1.0), self.watch.draws):
            texts = [completion.text for completion in sample.completions]
            scores = [score or 0.0 for score in score_texts(scorer, texts, prompt)]
            counts = [completion.count for completion in sample.completions]
            values.append(expectation_deviation(scores, counts))
        return float(torch.tensor(values).mean())

    def _utility(self, split: str) -> float:
        scorer, values = make_scorer(_SCORER), []
        for prompt, sample in self._answers(self._asked(split), self._decoding(0.0), 1):
            (score,) = score_texts(scorer, [sample.completions[0].text], prompt)
            values.append(score or 0.0)
        return float(torch.tensor(values).mean())

    def _asked(self, split: str) -> Sequence[Prompt]:
        return self.prompts[split][: self.watch.questions]

    def _decoding(self, temperature: float) -> Decoding:
        return Decoding(temperature=temperature, max_new_tokens=self.watch.max_new_tokens)

    def _answers(
        self, prompts: Sequence[Prompt], decoding: Decoding, draws: int
    ) -> Iterator[tuple[Prompt, Sample]]:
        engine = TransformersEngine(self.loaded, self.prompting)
        wanted = Draws(sizes=(draws,), seed=self.seed, purpose="training")
        return ask(engine, prompts, decoding, wanted)


def _confidences(made: LossInputs) -> torch.Tensor:
    largest = made.log_probs.max(dim=-1).values.exp()
    return made.means(largest)


def _as_it_is(ends: torch.Tensor) -> torch.Tensor:
    return ends
