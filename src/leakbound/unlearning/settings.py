"""Training settings that apply to any objective."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Literal

from leakbound.engines.prompting import Prompting
from leakbound.errors import InputError
from leakbound.text.shown import many
from leakbound.types import Decoding, Embed
from leakbound.types.decoding import require
from leakbound.unlearning.weights import EVERYTHING, Weights

Schedule = Literal["cosine", "linear", "constant"]
# transformers' names; its plain "constant" has no warm-up.
SCHEDULES = {"cosine": "cosine", "linear": "linear", "constant": "constant_with_warmup"}
_OWN_PARTS = ("prompting", "alternates", "embedder", "selecting", "inventing")


def _require_positive(settings: object, *names: str) -> None:
    for name in names:
        require(getattr(settings, name) >= 1, name, getattr(settings, name), "at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswers:
    """Settings for answers of the model before training, at T = 1 without truncation.

    These answers have two uses. First, the model's confidence in its answers can select rewritings
    before contrast centres are chosen among the rewritings (IDS). Second, an objective can prefer
    these answers over the true answers. Then each answer is a row, so an epoch has `draws` rows per
    question.

    Attributes:
        draws: the number of answers per text, at least 1.
        max_new_tokens: the maximum number of tokens per answer, at least 1.

    Raises:
        InputError: a number below 1.
    """

    draws: int = 64
    max_new_tokens: int = 64

    def __post_init__(self) -> None:
        _require_positive(self, "draws", "max_new_tokens")

    @property
    def decoding(self) -> Decoding:
        """The output distribution of the answers."""
        return Decoding(max_new_tokens=self.max_new_tokens)


MADE_UP = ModelAnswers(draws=5, max_new_tokens=200)


@dataclass(frozen=True, slots=True)
class StepCount:
    """The number of passes and steps of a training run.

    A pass is a forward pass over one batch. A step of the optimiser uses `accumulation` passes. By
    default, a step may combine passes of two epochs, and both the number of steps and the warm-up
    are rounded up.

    With `whole_steps`, steps are counted as in OpenUnlearning (d3d7cf9, with its transformers
    4.45.1: `Trainer._inner_training_loop`, `load_trainer_args`). An epoch has floor(passes of the
    epoch / accumulation) steps, at least 1. Passes that do not fill a step are used in the first
    step of the next epoch. Training ends after the last complete step, so the last passes may be
    left out. The warm-up has floor(epochs of warm-up x rows / (batch size x accumulation)) steps.

    There is one deviation, for epochs with fewer passes than `accumulation`. The code of
    OpenUnlearning then makes an additional step at every `accumulation`-th pass, and divides each
    loss by `accumulation`. In this package such an epoch is one step with the mean over its passes.

    Attributes:
        passes: the total number of passes.
        accumulation: the number of passes per step.
        steps: the number of optimiser steps.
        warmup: the number of steps over which the learning rate rises.
    """

    passes: int
    accumulation: int
    steps: int
    warmup: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSettings:
    """Settings of a training run with AdamW; the defaults are from Scholten et al. (2025).

    Attributes:
        epochs: the number of times that training uses the leading split, which is the split to
            forget or to learn.
        learning_rate: the learning rate after the warm-up, which is the maximum.
        batch_size: the number of rows of the leading split per forward pass.
        accumulation: the number of passes per step.
        schedule: how the learning rate falls: "cosine", "linear" or "constant".
        warmup_ratio: the fraction of all steps over which the learning rate rises.
        whole_steps: whether steps are counted as in OpenUnlearning (see `StepCount`).
        weight_decay: AdamW's weight decay.
        max_grad_norm: the norm to which gradients are clipped.
        max_length: the maximum number of tokens of prompt and answer together (None: the model's
            context length).
        dtype: the type in which weights are stored.
        bf16: whether to multiply in bfloat16, for any type of the stored weights.
        checkpointing: whether to recompute activations in the backward pass, to save memory.
        weights: the weights that are trained.
        prompting: the conversion of questions to prompts (None: as in `evaluate` for the same
            benchmark).
        alternates: the sentences that objectives with alternate answers teach (None: each row's own
            sentences, or else the default sentences of this package).
        embedder: the model whose embeddings of a row's paraphrases are clustered to choose contrast
            centres (None: the model to train, as it is before training).
        selecting: the settings of the answers by which paraphrases are selected before clustering.
            A paraphrase is kept if the model answers it at least as confidently as the question
            (None: all are kept).
        inventing: the settings of made-up answers, for objectives that prefer such answers.
        device: "cpu", "cuda" or "auto".
        seed: the seed of the order of rows, of dropout and of made-up answers.
        trust_remote_code: whether to run code that came with the model.
    """

    epochs: int = 10
    learning_rate: float = 1e-5
    batch_size: int = 32
    accumulation: int = 1
    schedule: Schedule = "cosine"
    warmup_ratio: float = 0.1
    whole_steps: bool = False
    weight_decay: float = 0.01
    max_grad_norm: float = 1.0
    max_length: int | None = None
    dtype: str = "float32"
    bf16: bool = False
    checkpointing: bool = False
    weights: Weights = EVERYTHING
    prompting: Prompting | None = None
    alternates: Sequence[str] | None = None
    embedder: Embed | None = None
    selecting: ModelAnswers | None = None
    inventing: ModelAnswers = field(default=MADE_UP, repr=False)  # absent in stored settings
    device: str = "auto"
    seed: int = 0
    trust_remote_code: bool = False

    def __post_init__(self) -> None:
        _require_positive(self, "epochs", "batch_size", "accumulation")
        for name in ("learning_rate", "max_grad_norm"):
            value = getattr(self, name)
            require(math.isfinite(value) and value > 0, name, value, "a positive number")
        require(0 <= self.warmup_ratio <= 1, "warmup_ratio", self.warmup_ratio, "in [0, 1]")
        require(self.weight_decay >= 0, "weight_decay", self.weight_decay, "0 or more")
        require(self.seed >= 0, "seed", self.seed, "0 or more")
        names = f"one of {', '.join(SCHEDULES)}"
        require(self.schedule in SCHEDULES, "schedule", self.schedule, names)

    def steps_of(self, rows: int) -> StepCount:
        """Return the number of passes and steps for this number of rows of the leading split.

        Raises InputError if the learning rate is 0 in every step, because no weight would change.
        """
        of_epoch = math.ceil(rows / self.batch_size)
        if self.whole_steps:
            accumulation = min(self.accumulation, of_epoch)
            steps = self.epochs * (of_epoch // accumulation)
            passes = steps * accumulation
            warm = self.warmup_ratio * self.epochs * rows // (self.batch_size * self.accumulation)
        else:
            accumulation, passes = self.accumulation, self.epochs * of_epoch
            steps = math.ceil(passes / accumulation)
            warm = math.ceil(self.warmup_ratio * steps)
        # In every schedule, only the first step of a warm-up has the rate 0.
        if steps <= 1 <= warm:
            raise InputError(
                "no weight would change: the learning rate is 0 in every step "
                f"({many(steps, 'step')}, {int(warm)} of them warm-up, which begins at 0). Train "
                "for more epochs, in smaller batches, or with `warmup_ratio` 0."
            )
        return StepCount(passes, accumulation, steps, int(warm))

    def to_dict(self) -> dict[str, object]:
        """Return the settings for a recipe file, without settings that its other parts contain."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _OWN_PARTS}
        return plain | {"weights": asdict(self.weights)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Settings of checkpoints, measurements and reports, which do not change the trained weights.

    Attributes:
        checkpoint_minutes: the number of minutes between checkpoints, at least 0; 0 saves a
            checkpoint at each step.
        evaluate_every: the number of steps between measurements of leakage and utility (None: no
            measurements).
        questions: the number of measured questions of each split, from the first question on.
        draws: the number of answers per question.
        max_new_tokens: the maximum number of tokens per answer.
        report_to: names of experiment trackers that transformers supports.
        dry_run: whether to check everything and load the model, but neither train nor write.

    Raises:
        InputError: `checkpoint_minutes` below 0, or another number below 1.
    """

    checkpoint_minutes: float = 10.0
    evaluate_every: int | None = None
    questions: int = 32
    draws: int = 64
    max_new_tokens: int = 64
    report_to: tuple[str, ...] = ()
    dry_run: bool = False

    def __post_init__(self) -> None:
        minutes = self.checkpoint_minutes
        require(minutes >= 0, "checkpoint_minutes", minutes, "0 (each step) or more")
        every = self.evaluate_every
        require(every is None or every >= 1, "evaluate_every", every, "at least 1, or None")
        _require_positive(self, "questions", "draws", "max_new_tokens")
