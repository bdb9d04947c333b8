"""How training runs, whatever the objective."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Literal, get_args

from leakbound.engines.prompting import Prompting
from leakbound.types import Embed, Progress, silent
from leakbound.types.decoding import require
from leakbound.unlearning.weights import EVERYTHING, Weights

Schedule = Literal["cosine", "linear", "constant"]
_OWN_PARTS = ("prompting", "alternates", "embedder", "selecting", "inventing")


def _require_positive(settings: object, *names: str) -> None:
    for name in names:
        require(getattr(settings, name) >= 1, name, getattr(settings, name), "at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selecting:
    """How rewritings are selected before contrast centres are chosen among them (IDS).

    Attributes:
        draws: answers a text, which tell how surely the model answers it; at least 1.
        max_new_tokens: of each answer, at most; at least 1.

    Raises:
        InputError: a number below 1.
    """

    draws: int = 64
    max_new_tokens: int = 64

    def __post_init__(self) -> None:
        _require_positive(self, "draws", "max_new_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventing:
    """How the model makes up answers, before training, that an objective then prefers.

    Drawn at T = 1 with nothing truncated. Each makes a row of its own, so that an epoch has `draws`
    times as many.

    Attributes:
        draws: answers a row, at least 1.
        max_new_tokens: of each answer, at most; at least 1.

    Raises:
        InputError: a number below 1.
    """

    draws: int = 5
    max_new_tokens: int = 200

    def __post_init__(self) -> None:
        _require_positive(self, "draws", "max_new_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSettings:
    """How a model is trained, by AdamW; the defaults are those of Scholten et al. (2025).

    Attributes:
        epochs: passes over the leading split, what is forgotten or taught.
        learning_rate: at its highest, after the warm-up.
        batch_size: rows of the leading split in one forward pass.
        accumulation: passes in one step.
        schedule: how the learning rate falls: "cosine", "linear" or "constant".
        warmup_ratio: the share of all steps over which the learning rate rises.
        weight_decay: AdamW's.
        max_grad_norm: the norm that gradients are cut to.
        max_length: of prompt and answer together, in tokens (None: the model's context).
        dtype: how weights are held.
        bf16: multiply in bfloat16, whatever the weights are held in.
        checkpointing: compute activations again in the backward pass instead of keeping them.
        weights: which of them are trained.
        prompting: how questions are asked (None: as `evaluate` asks those of the benchmark).
        alternates: the sentences that objectives preferring another answer teach (None: the row's
            own, or ours where it has none).
        embedder: chooses contrast centres where a row has many paraphrases (None: the model).
        selecting: keep for that the paraphrases answered at least as surely as the question.
        inventing: how objectives that prefer made-up answers have them made.
        device: "cpu", "cuda" or "auto".
        seed: of the order of rows, of dropout and of made-up answers.
        trust_remote_code: run code that came with the model.
    """

    epochs: int = 10
    learning_rate: float = 1e-5
    batch_size: int = 32
    accumulation: int = 1
    schedule: Schedule = "cosine"
    warmup_ratio: float = 0.1
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
    selecting: Selecting | None = None
    inventing: Inventing = field(default=Inventing(), repr=False)  # what was kept knows none
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
        names = get_args(Schedule)
        require(self.schedule in names, "schedule", self.schedule, f"one of {', '.join(names)}")

    def to_dict(self) -> dict[str, object]:
        """As recipe files hold it, without what they tell in parts of their own."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _OWN_PARTS}
        return plain | {"weights": asdict(self.weights)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """The records that are kept and told while training runs; nothing of it changes the weights.

    Attributes:
        checkpoint_minutes: from one checkpoint to the next, 0 (each step) or more.
        evaluate_every: steps from one measurement of leakage and utility to the next (None: never).
        questions: of each split, the first so many are measured on.
        draws: answers a question.
        max_new_tokens: of each answer, at most.
        report_to: trackers that transformers knows.
        phases: told of what comes before and after the steps: loading and saving.

    Raises:
        InputError: minutes below 0, or another number below 1.
    """

    checkpoint_minutes: float = 10.0
    evaluate_every: int | None = None
    questions: int = 32
    draws: int = 64
    max_new_tokens: int = 64
    report_to: tuple[str, ...] = ()
    phases: Progress = field(default=silent, compare=False)

    def __post_init__(self) -> None:
        minutes = self.checkpoint_minutes
        require(minutes >= 0, "checkpoint_minutes", minutes, "0 (each step) or more")
        every = self.evaluate_every
        require(every is None or every >= 1, "evaluate_every", every, "at least 1, or None")
        _require_positive(self, "questions", "draws", "max_new_tokens")
