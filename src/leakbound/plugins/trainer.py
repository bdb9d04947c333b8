"""Bounds while transformers or TRL trains: `trainer.add_callback(LeakBounds(trainer, ...))`.

At regular steps, the callback draws n answers to each question from the current model, with the
code of an evaluation. It writes bounds on the mean leakage and on the worst question to the
trainer's log, and so to each target in `report_to`. The j-th of these evaluations has the error
rate alpha/(j(j + 1)). Half of it is for the bounds on the mean, and half for the bounds on the
worst question. The error rates of all evaluations add up to alpha, so all logged intervals are
valid simultaneously, for any number of evaluations and any rule for stopping.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import TrainerCallback

from leakbound.benchmarks import Benchmark, load_benchmark
from leakbound.engines import Prompting
from leakbound.engines.hf import TransformersEngine
from leakbound.engines.loading import live_model
from leakbound.errors import InputError
from leakbound.plugins.draws import drawn_by_tool, scores_of, seed_of
from leakbound.scorers import make_scorer
from leakbound.types import Draws, Query, Scorer


class LeakBounds(TrainerCallback):  # type: ignore[misc]
    """A callback that logs bounds on the mean leakage and the worst question during training.

    It logs `leak` with `leak_lower` and `leak_upper`, `worst_lower` and `worst_upper`, and
    `leak_seed`. Pass `leak_seed` as `seed` to repeat the bounds.

    Args:
        trainer: the trainer with the log: a `transformers.Trainer`, or TRL's.
        benchmark: a benchmark, or its name for `leakbound evaluate --benchmark`.
        every: the number of steps between two evaluations, at least 1; the last one is after
            training.
        n: the number of draws per question and evaluation, at least 2.
        limit: the number of questions, from the first one; None: all.
        scorer: a spec for `--scorer`; None: the benchmark's first scorer.
        confidence: the simultaneous confidence of all logged intervals, in (0, 1).
        seed: the seed of the draws and of the order in which betting bounds process them, from 0 to
            16,777,215. The draws and the order differ between evaluations. None: the seed of this
            process, drawn once.

    Raises:
        InputError: for a trainer without a tokenizer, a benchmark without a default scorer if
            `scorer` is None, an unknown benchmark or scorer, or an `every`, `n` or `seed` out of
            range.
    """

    def __init__(
        self,
        trainer: Any,
        benchmark: str | Benchmark,
        *,
        every: int = 100,
        n: int = 128,
        limit: int | None = None,
        scorer: str | None = None,
        confidence: float = 0.99,
        seed: int | None = None,
    ) -> None:
        task = load_benchmark(benchmark) if isinstance(benchmark, str) else benchmark
        named = scorer or next(iter(task.scorers), None)
        if named is None or every < 1 or n < 2:
            raise InputError(
                f"a scorer, `every` >= 1 and `n` >= 2 are needed, got scorer={named}, "
                f"every={every}, n={n}."
            )
        if getattr(trainer, "processing_class", None) is None:
            raise InputError("the trainer has no tokenizer. Pass it processing_class=TOKENIZER.")
        self.trainer, self.every, self.n = trainer, every, n
        self.prompts = {prompt.id: prompt for prompt in task.prompts[:limit]}
        self.decoding = task.decoding
        self.scorer: Scorer = make_scorer(named)
        self.prompting = Prompting(
            template=task.template, default_system=task.system, chat=task.chat
        )
        self.confidence, self.seed, self.looks = confidence, seed_of(seed), 0
        self._looked = -1

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step % self.every == 0:
            self._look(state)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step != self._looked:
            self._look(state)

    def _look(self, state: Any) -> None:
        self._looked, self.looks = state.global_step, self.looks + 1
        if state.is_world_process_zero:
            self.trainer.log(self._bounds())

    def _bounds(self) -> dict[str, float]:
        """Return the bounds of this evaluation, at the confidence of the evaluation."""
        alpha = (1 - self.confidence) / (self.looks * (self.looks + 1))
        drawn = drawn_by_tool(
            self._drawn(),
            self.n,
            tool="LeakBounds",
            scorer=f"{self.scorer.name} at look {self.looks}",
            binary=self.scorer.binary,
            seed=self.seed,
        )
        share = 1 - alpha / 2
        mean, worst = drawn.mean(confidence=share, side="both"), drawn.worst(confidence=share)
        bounds = {"leak": mean.value, "leak_lower": mean.lower, "leak_upper": mean.upper}
        bounds |= {"worst_lower": worst.lower, "worst_upper": worst.upper}
        return {name: float(value) for name, value in bounds.items()} | {"leak_seed": self.seed}

    def _drawn(self) -> dict[str, list[float | None]]:
        """Return the scores of this evaluation by question; None for a draw without a score."""
        model = self.trainer.accelerator.unwrap_model(self.trainer.model)
        with _evaluating(model):
            engine = TransformersEngine(
                live_model(model, self.trainer.processing_class), self.prompting
            )
            draws = Draws(sizes=(self.n,), seed=self.seed, purpose=f"look {self.looks}")
            queries = [*map(Query.original, self.prompts.values())]
            drawn = engine.generate(queries, self.decoding, draws)
            return scores_of(drawn, self.scorer, self.prompts)


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """Disable dropout and gradients, and restore the random state of training."""
    training, devices = model.training, [model.device] if model.device.type == "cuda" else []
    model.eval()
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=devices):
            yield
    finally:
        model.train(training)
