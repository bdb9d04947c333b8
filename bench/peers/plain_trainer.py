"""Unlearning as users write it on top of transformers' `Trainer`: of leakbound, only its rows.

A frozen copy of the model reads the forget rows in every step, and logits are computed at every
place. Each split has one forward pass, padded on the right, and one log-softmax for everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import SequentialSampler
from transformers import AutoModelForCausalLM, PrinterCallback, Trainer, TrainingArguments

from leakbound.types import Headway, Progress, silent
from leakbound.unlearning import TrainingSettings
from leakbound.unlearning.examples import Example, schedule

BETA, FORGET_ENTROPY, RETAIN_ENTROPY = 0.1, 1.0, -0.25  # as in `npo+entropy`

Pair = dict[str, Example]
Rows = Mapping[str, Sequence[Example]]


def train(
    location: str, rows: Rows, settings: TrainingSettings, out: Path, progress: Progress = silent
) -> list[float]:
    """NPO + entropy on the model at `location`, on `rows` of forget and retain in our order.

    The learning rate is constant.
    """
    model, reference = (
        AutoModelForCausalLM.from_pretrained(location, dtype=torch.float32) for _ in range(2)
    )
    arguments = TrainingArguments(
        output_dir=str(out),
        num_train_epochs=1,
        per_device_train_batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="constant",
        weight_decay=settings.weight_decay,
        max_grad_norm=settings.max_grad_norm,
        seed=settings.seed,
        use_cpu=True,
        remove_unused_columns=False,
        save_strategy="no",
        logging_steps=1,
        report_to="none",
        disable_tqdm=True,
    )
    trainer = PlainTrainer(
        reference,
        progress,
        model=model,
        args=arguments,
        train_dataset=_pairs(rows, settings),
        data_collator=_collate,
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return [line["loss"] for line in trainer.state.log_history if "loss" in line]


class PlainTrainer(Trainer):  # type: ignore[misc]
    """NPO + entropy as users write it on top of `Trainer`."""

    def __init__(self, reference: Any, progress: Progress, **rest: Any) -> None:
        super().__init__(**rest)
        self.progress, self.reference = progress, reference.eval().requires_grad_(False)
        self.model_accepts_loss_kwargs = False

    def compute_loss(self, model: Any, inputs: dict[str, dict[str, Tensor]], **_: Any) -> Tensor:
        forget, retain = inputs["forget"], inputs["retain"]
        log_probs, nll, answer = read(model, forget)
        with torch.no_grad():
            reference_nll = read(self.reference, forget)[1]
        npo = -2 / BETA * logsigmoid(BETA * ((nll - reference_nll) * answer).sum(-1)).mean()
        retain_log_probs, retain_nll, retain_answer = read(model, retain)
        return (
            npo
            + mean(retain_nll, retain_answer)
            + FORGET_ENTROPY * mean(entropy(log_probs), answer)
            + RETAIN_ENTROPY * mean(entropy(retain_log_probs), retain_answer)
        )

    def log(self, logs: dict[str, float], *args: Any) -> None:
        super().log(logs, *args)
        if "loss" in logs:
            self.progress(
                Headway("training", self.state.global_step, self.state.max_steps, "steps")
            )

    def _get_train_sampler(self, *_: Any) -> SequentialSampler:
        return SequentialSampler(self.train_dataset)


def read(model: Any, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Return log-probabilities [B, T - 1, V], cross-entropies and the answers' mask, [B, T - 1]."""
    logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    log_probs = logits[:, :-1].log_softmax(-1)
    labels = batch["labels"][:, 1:]
    nll = -log_probs.gather(-1, labels.clamp(min=0)[..., None]).squeeze(-1)
    return log_probs, nll, labels != -100


def entropy(log_probs: Tensor) -> Tensor:
    return -(log_probs.exp() * log_probs).sum(-1)


def mean(values: Tensor, answer: Tensor) -> Tensor:
    """The mean over rows of the mean over each answer."""
    return ((values * answer).sum(-1) / answer.sum(-1)).mean()


def _pairs(rows: Rows, settings: TrainingSettings) -> list[Pair]:
    """Return the rows of all steps in leakbound's order, one pair per item."""
    steps = schedule(
        {split: len(own) for split, own in rows.items()},
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        seed=settings.seed,
    )
    return [
        {"forget": rows["forget"][f], "retain": rows["retain"][r]}
        for step in steps
        for f, r in zip(step["forget"], step["retain"], strict=True)
    ]


def _collate(pairs: list[Pair]) -> dict[str, dict[str, Tensor]]:
    return {split: _padded([pair[split] for pair in pairs]) for split in ("forget", "retain")}


def _padded(examples: list[Example]) -> dict[str, Tensor]:
    """Pad on the right; labels are at their own tokens, as transformers has them."""

    def table(rows: list[list[int]], fill: int) -> Tensor:
        return pad_sequence([*map(torch.tensor, rows)], batch_first=True, padding_value=fill)

    return {
        "input_ids": table([example.tokens for example in examples], 0),
        "attention_mask": table([[1] * len(example.tokens) for example in examples], 0),
        "labels": table([[-100] * len(e.prompt) + list(e.answer) for e in examples], -100),
    }
