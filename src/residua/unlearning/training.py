"""Lowering an objective with transformers' `Trainer`, which only ever sees finished batches."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from residua.engines.loading import LoadedModel, quiet
from residua.errors import IncompleteError
from residua.losses import LossInputs
from residua.objective import Objective
from residua.unlearning.examples import Example, Padded, Step, pad, schedule
from residua.unlearning.forward import Forward, forward_for, reference_nll
from residua.unlearning.settings import TrainingSettings

# transformers' names; its plain "constant" has no warm-up.
_SCHEDULES = {"cosine": "cosine", "linear": "linear", "constant": "constant_with_warmup"}

Progress = Callable[[int, int, float], None]  # step, of how many, loss


@dataclass(frozen=True, slots=True)
class Fit:
    """What training did: the objective at each step, and how long it took, in seconds."""

    losses: tuple[float, ...]
    seconds: float
    narrow: bool


@dataclass(frozen=True, slots=True)
class _Batches:
    """The steps as padded batches: the splits stand below one another in the objective's order."""

    examples: Mapping[str, Sequence[Example]]
    references: Mapping[str, Tensor]
    steps: Sequence[Step]

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, index: int) -> dict[str, Any]:
        step = self.steps[index]
        padded = pad([self.examples[split][i] for split, rows in step.items() for i in rows])
        return {
            "input_ids": padded.input_ids,
            "attention_mask": padded.attention_mask,
            "labels": padded.labels,
            "rows": {split: len(rows) for split, rows in step.items()},
            "references": {split: nll[step[split]] for split, nll in self.references.items()},
        }


class _ObjectiveTrainer(Trainer):  # type: ignore[misc]
    """A `Trainer` whose loss is an objective and whose batches come in the order given."""

    def __init__(self, objective: Objective, forward: Forward, **settings: Any) -> None:
        super().__init__(**settings)
        self.objective = objective
        self.forward = forward
        self.losses: list[float] = []
        self.model_accepts_loss_kwargs = False  # the loss is a mean: Trainer divides by passes

    def compute_loss(self, model: Any, inputs: dict[str, Any], **_: Any) -> Tensor:
        """The objective on one batch; raises IncompleteError where it is not finite."""
        padded = Padded(inputs["input_ids"], inputs["attention_mask"], inputs["labels"])
        batches = _by_split(self.forward(padded), inputs["rows"], inputs["references"])
        loss = self.objective(batches)
        value = float(loss.detach())
        if not math.isfinite(value):
            raise IncompleteError(
                f"the objective became {value} in step {self.state.global_step + 1} of "
                f"{self.state.max_steps}; no model was written. Lower the learning rate."
            )
        self.losses.append(value)
        return loss

    def get_train_dataloader(self) -> DataLoader[dict[str, Any]]:
        """The steps as they are: already batched, already in order."""
        return DataLoader(self.train_dataset, batch_size=None)


class _Report(TrainerCallback):  # type: ignore[misc]
    def __init__(self, losses: list[float], progress: Progress) -> None:
        self.losses = losses
        self.progress = progress

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.progress(state.global_step, state.max_steps, self.losses[-1])


def fit(
    loaded: LoadedModel,
    objective: Objective,
    examples: Mapping[str, Sequence[Example]],
    settings: TrainingSettings,
    progress: Progress | None = None,
) -> Fit:
    """Train `loaded.model` in place; the same seed on the same machine gives the same weights.

    Trainer seeds Python's, NumPy's and torch's global generators on the way.
    `examples` has one entry for every split of the objective. The frozen reference is the model
    as it comes in; its log-probabilities are computed once for each row. Raises IncompleteError
    when the objective stops being finite.
    """
    started = time.monotonic()
    model, device = loaded.model, loaded.model.device
    lead = objective.splits[0]
    forward = forward_for(model, pad(examples[lead][: settings.batch_size]).to(device))
    references = {
        split: reference_nll(
            forward, examples[split], batch_size=settings.batch_size, device=device
        ).cpu()
        for split in objective.splits
        if split in objective.referenced
    }
    steps = schedule(
        {split: len(examples[split]) for split in objective.splits},
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        seed=settings.seed,
    )
    with tempfile.TemporaryDirectory() as scratch, quiet():
        trainer = _ObjectiveTrainer(
            objective,
            forward,
            model=model,
            args=_arguments(settings, len(steps), device, scratch),
            train_dataset=_Batches(examples, references, steps),
        )
        trainer.remove_callback(PrinterCallback)
        if progress:
            trainer.add_callback(_Report(trainer.losses, progress))
        trainer.train()
    model.eval()
    return Fit(tuple(trainer.losses), time.monotonic() - started, forward.narrow)


def _by_split(
    packed: LossInputs, rows: Mapping[str, int], references: Mapping[str, Tensor]
) -> dict[str, LossInputs]:
    """Cut one packed batch into its splits, which follow one another."""
    batches = {}
    first = 0
    for split, count in rows.items():
        inside = (packed.row >= first) & (packed.row < first + count)
        batches[split] = LossInputs(
            logits=packed.logits[inside],
            labels=packed.labels[inside],
            row=packed.row[inside] - first,
            rows=count,
            reference_nll=references.get(split),
        )
        first += count
    return batches


def _arguments(
    settings: TrainingSettings, batches: int, device: torch.device, scratch: str
) -> TrainingArguments:
    steps = math.ceil(batches / settings.accumulation)
    return TrainingArguments(
        output_dir=scratch,
        num_train_epochs=1,  # one pass over the batches of all epochs
        gradient_accumulation_steps=settings.accumulation,
        learning_rate=settings.learning_rate,
        lr_scheduler_type=_SCHEDULES[settings.schedule],
        warmup_steps=math.ceil(settings.warmup_ratio * steps),
        weight_decay=settings.weight_decay,
        max_grad_norm=settings.max_grad_norm,
        seed=settings.seed,
        use_cpu=device.type == "cpu",
        remove_unused_columns=False,
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
