"""Lowering an objective: one training, from wherever it stands to its end.

transformers' `Trainer` takes the steps; which rows meet in which pass is settled before.
"""

from __future__ import annotations

import atexit
import gc
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.distributed
from torch import Tensor
from torch.utils.data import DataLoader
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)
from transformers.integrations import integration_utils
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from leakbound.engines.loading import LoadedModel, load_weights, quiet
from leakbound.errors import IncompleteError, InputError
from leakbound.objective import Objective
from leakbound.registry import suggestion
from leakbound.store.files import write_json
from leakbound.unlearning.batches import Assembly, Frozen, Head
from leakbound.unlearning.examples import Step, pad, schedule
from leakbound.unlearning.forward import Forward, forward_for
from leakbound.unlearning.reference import References, frozen_head, push_at_start
from leakbound.unlearning.settings import StepCount, TrainingSettings, Watch
from leakbound.unlearning.weights import (
    chosen_modules,
    fraction_moved,
    require_layers,
    require_peft,
    rounded_weights,
    trained,
)
from leakbound.unlearning.work_folder import MOVED, WorkFolder, notes_of, read_object

_WEIGHTS = "weights_of_terms.json"  # in a checkpoint
Progress = Callable[[int, int, float], None]  # step, of how many, loss
Measure = Callable[[Forward], Mapping[str, float]]  # what is measured on the way, by name


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """The listeners of a training, and the measure that is taken on the way."""

    watch: Watch
    progress: Progress | None = None
    measure: Measure | None = None


@dataclass(frozen=True, slots=True)
class PassShare:
    """The rows of one pass that a process takes of those of all, and what is frozen of its own.

    `epoch` counts the epochs before this one; `share` weighs these rows among all processes'.
    """

    epoch: int
    step: Step
    frozen: Mapping[str, Sequence[Frozen]]
    share: float
    of: Step


@dataclass(frozen=True, slots=True)
class Batches:
    """The steps in parts; of several processes each takes every so-manieth row of a step."""

    assembly: Assembly
    references: References
    steps: Sequence[Step]
    process: int
    processes: int

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, index: int) -> dict[str, PassShare]:
        step = self.steps[index]
        own = {split: rows[self.process :: self.processes] for split, rows in step.items()}
        (count, *_) = map(len, step.values())
        (mine, *_) = map(len, own.values())
        share = mine * self.processes / count
        if not mine:  # every process must take part: with a row that has no weight
            own = {split: rows[:1] for split, rows in step.items()}
        frozen = self.references.read(own)
        (lead, rows), *_ = self.steps[0].items()
        steps_of_epoch = math.ceil(len(self.assembly.data[lead].examples) / len(rows))
        return {"part": PassShare(index // steps_of_epoch, own, frozen, share, step)}


class ObjectiveTrainer(Trainer):  # type: ignore[misc]
    """A `Trainer` whose loss is an objective and whose batches come in the order given."""

    def __init__(
        self,
        objective: Objective,
        batches: Batches,
        head: Head,
        kept: WorkFolder,
        following: Following,
        **arguments: Any,
    ) -> None:
        super().__init__(train_dataset=batches, **arguments)
        self.objective = objective
        self.assembly = batches.assembly
        self.head = head
        self.kept = kept
        self.following = following
        self.weights = objective.weights  # of the terms, multipliers as they are now
        self.terms = torch.zeros(len(objective.terms))
        self.passes = 0
        self.started = time.monotonic()
        self.model_accepts_loss_kwargs = False  # the loss is a mean: Trainer divides by passes

    def compute_loss(self, model: Any, inputs: dict[str, PassShare], **_: Any) -> Tensor:
        """The objective on one part; raises IncompleteError where it is not finite."""
        part = inputs["part"]
        batch = self.assembly.batch(part.step, part.frozen, of=part.of).to(self.args.device)
        logits, hidden = model(batch.padded, batch.places.nonzero(as_tuple=True))
        means = self.objective.means(self.assembly.cut(batch, logits, hidden, self.head))
        shares = [part.share * mean for mean in means]
        values = [w * share for w, share in zip(self.weights, shares, strict=True)]
        loss = sum(values[1:], start=values[0])
        value = float(loss.detach())
        if not math.isfinite(value):
            self.stop(f"the objective became {value}")
        self.terms += torch.stack(values).detach().cpu()
        self.passes += 1
        if self.objective.bounds:
            self.move(part.epoch, torch.stack(shares).detach())
        return loss

    def move(self, epoch: int, shares: Tensor) -> None:
        """Move the multiplier of each bound by how far the mean over all processes is beyond it."""
        beyond = self.accelerator.reduce(shares, "mean").tolist()
        for i, bound in self.objective.bounds.items():
            if epoch >= bound.warmup:
                self.weights[i] = max(0.0, self.weights[i] + bound.step * beyond[i])

    def stop(self, event: str) -> NoReturn:
        """Raise IncompleteError: `event` happened in the step that is being taken."""
        last = self.kept.checkpoint
        kept = f"the last good checkpoint is `{last}`" if last else "there is no checkpoint"
        raise IncompleteError(
            f"{event} in step {self.state.global_step + 1} of {self.state.max_steps}; no model was "
            f"written, {kept}. Lower the learning rate, and choose another folder."
        )

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """As Trainer does, with the value of each term of the objective beside the loss."""
        logs["seconds"] = round(time.monotonic() - self.started, 3)
        if "loss" in logs:
            means = self.accelerator.reduce(self.terms.to(self.args.device) / self.passes, "mean")
            for term, mean in zip(self.objective.terms, means.tolist(), strict=True):
                name = f"{term.split} {term.loss}"  # which two recipes may have in common
                logs[name] = logs.get(name, 0.0) + mean
            self.terms, self.passes = torch.zeros_like(self.terms), 0
            for i in self.objective.bounds:
                term = self.objective.terms[i]
                logs[f"multiplier {term.split} {term.loss}"] = self.weights[i]
        super().log(logs, start_time)

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """Measure on the way, and log it; a round of its own, outside training's chance."""
        self.control.should_evaluate = False
        measure = self.following.measure
        if measure is None or not self.is_world_process_zero():
            return {}
        self.model.eval()
        figures = dict(measure(self.model))
        self.log(figures)
        return figures

    def get_train_dataloader(self) -> DataLoader[dict[str, PassShare]]:
        """The steps as they are: already in parts, already in order."""
        return DataLoader(self.train_dataset, batch_size=1, collate_fn=itemgetter(0))

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Write the model itself, without what training wrapped it in, and its tokenizer."""
        if self.args.should_save:
            self.model.model.save_pretrained(output_dir)
            self.processing_class.save_pretrained(output_dir)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """As Trainer does, and then see that a power cut cannot take it back."""
        super()._save_checkpoint(model, trial)
        self.accelerator.wait_for_everyone()  # each process writes the state of its chance
        if self.args.should_save:
            folder = f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
            path = Path(self._get_output_dir(trial), folder)
            if self.objective.bounds:
                write_json(path / _WEIGHTS, {"weights": self.weights})
            self.kept.keep(path)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        """Read what `save_model` wrote into the model itself: adapters alone, or every weight.

        And where training moves weights of terms, these as they were.
        """
        if self.objective.bounds:
            self.weights = read_object(Path(resume_from_checkpoint, _WEIGHTS))["weights"]
        trained = self.model.model
        if hasattr(trained, "peft_config"):
            super()._load_from_checkpoint(resume_from_checkpoint, trained)
        else:  # Trainer's own way looks into a wrapping, and overlooks weights that are missing
            load_weights(trained, Path(resume_from_checkpoint))


class Follow(TrainerCallback):  # type: ignore[misc]
    """Tells of each step, keeps the log, and says when to measure and to keep a checkpoint."""

    def __init__(self, trainer: ObjectiveTrainer) -> None:
        self.trainer = trainer
        self.following = trainer.following
        self.saved = time.monotonic()

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        history = state.log_history
        if history:
            self.trainer.started -= history[-1]["seconds"]
        if state.is_world_process_zero:
            self.trainer.kept.write_log([*map(_logged, history)])
        if state.global_step:
            return
        trainer = self.trainer
        push = push_at_start(trainer.train_dataset.references, trainer.objective)
        if push and state.is_world_process_zero:
            trainer.log(push)
        if self.following.measure:
            trainer.evaluate()

    def on_log(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if not state.is_world_process_zero:
            return
        line = state.log_history[-1]
        if "train_runtime" in line:  # Trainer's farewell
            return
        self.trainer.kept.add_to_log(_logged(line))
        if call := self.following.watch.note:
            for note in notes_of([line]):
                call(note)
        if "loss" in line and self.following.progress:
            self.following.progress(state.global_step, state.max_steps, line["loss"])

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        # A gradient that is not finite would spoil the weights before the loss shows it.
        gradients = [p.grad for p in self.trainer.model.parameters() if p.grad is not None]
        if not _are_finite(gradients):
            self.trainer.stop("the gradient was not finite")

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        every = self.following.watch.evaluate_every
        last = state.global_step == state.max_steps
        control.should_evaluate = bool(every and (last or state.global_step % every == 0))
        control.should_save = not last and self._due()

    def _due(self) -> bool:
        """True where any process finds that it is time; they must agree."""
        waited = time.monotonic() - self.saved
        due = torch.tensor(float(waited >= 60 * self.following.watch.checkpoint_minutes))
        accelerator = self.trainer.accelerator
        agreed = bool(accelerator.reduce(due.to(accelerator.device), "sum") > 0)
        if agreed:
            self.saved = time.monotonic()
        return agreed


def _are_finite(gradients: Sequence[torch.Tensor]) -> bool:
    """True if every number is finite, as it is where their sums are; huge ones are looked at."""
    sums = torch.stack([gradient.sum() for gradient in gradients])
    return bool(sums.isfinite().all()) or all(bool(grad.isfinite().all()) for grad in gradients)


def _logged(line: Mapping[str, float]) -> dict[str, float]:
    """A line of the log; Trainer's epoch is left out: all of ours are one to it."""
    return {name: value for name, value in line.items() if name != "epoch"}


_PROBE = 2  # rows to choose the forward pass by: all logits of them are made
# transformers' names; its plain "constant" has no warm-up.
_SCHEDULES = {"cosine": "cosine", "linear": "linear", "constant": "constant_with_warmup"}


def fit(
    loaded: LoadedModel,
    objective: Objective,
    assembly: Assembly,
    settings: TrainingSettings,
    kept: WorkFolder,
    following: Following,
) -> None:
    """Train `loaded.model` in place; the same seed on the same machine gives the same weights.

    `kept` is opened: training goes on from its last checkpoint, where there is one, and ends as
    if it had never been stopped. Trainer seeds Python's, NumPy's and torch's global generators
    on the way. `assembly` is that of the objective. The frozen reference is the model as it comes
    in. Raises IncompleteError when the objective or a gradient stops being
    finite.
    """
    model = loaded.model
    require_layers(model, assembly.layers)
    sizes = {split: len(assembly.data[split].examples) for split in objective.splits}
    count = settings.steps_of(next(iter(sizes.values())))
    steps = schedule(
        sizes, epochs=settings.epochs, batch_size=settings.batch_size, seed=settings.seed
    )[: count.passes]
    references = References(kept.references, assembly, steps, settings.batch_size)
    before = rounded_weights(model, settings.weights)
    with quiet():
        args = _arguments(settings, following.watch, count, kept.path)
        if args.world_size > 1:
            atexit.register(_leave_the_group)
        probe = assembly.data[next(iter(sizes))].examples[:_PROBE]
        forward = forward_for(model.to(args.device), pad(probe).to(args.device), assembly.layers)
        half = torch.autocast(args.device.type, torch.bfloat16, enabled=args.bf16)
        with args.main_process_first(local=False), half:
            references.compute(forward, args.device)
        head = frozen_head(forward, assembly.needs)
        batches = Batches(assembly, references, steps, args.process_index, args.world_size)
        if settings.checkpointing:
            _checkpoint_activations(model)
        with trained(model, settings.weights, settings.seed) as training:
            trainer = ObjectiveTrainer(
                objective,
                batches,
                head,
                kept,
                following,
                model=Forward(training, forward.narrow, forward.layers, paired=forward.paired),
                args=args,
                processing_class=loaded.tokenizer,
            )
            trainer.remove_callback(PrinterCallback)
            trainer.add_callback(Follow(trainer))
            trainer.train(resume_from_checkpoint=kept.checkpoint and str(kept.checkpoint))
    if before:
        moved = fraction_moved(before, rounded_weights(model, settings.weights))
        trainer.log({MOVED: moved})
    model.eval()


def on_cpu(settings: TrainingSettings) -> bool:
    """Whether the model is trained on the CPU: asked for, or there is no GPU."""
    return settings.device == "cpu" or not torch.cuda.is_available()


def _leave_the_group() -> None:
    """Before Python goes: threads of a group that is still there abort a process that is done.

    They end with the last reference to the group, which is in a circle of a trainer's own.
    """
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
        gc.collect()


def _checkpoint_activations(model: Any) -> None:
    enable = getattr(model, "activation_checkpointing_enable", None)  # transformers' newer name
    try:
        (enable or model.gradient_checkpointing_enable)({"use_reentrant": False})
    except ValueError as error:
        raise InputError(
            f"{type(model).__name__} cannot compute activations again. Leave `checkpointing` out."
        ) from error


def _arguments(
    settings: TrainingSettings, watch: Watch, count: StepCount, folder: Path
) -> TrainingArguments:
    return TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=1,  # one pass over the batches of all epochs
        gradient_accumulation_steps=count.accumulation,
        learning_rate=settings.learning_rate,
        lr_scheduler_type=_SCHEDULES[settings.schedule],
        warmup_steps=count.warmup,
        weight_decay=settings.weight_decay,
        max_grad_norm=settings.max_grad_norm,
        seed=settings.seed,
        bf16=settings.bf16,
        use_cpu=on_cpu(settings),
        remove_unused_columns=False,
        save_strategy="no",
        logging_steps=1,
        report_to=list(watch.report_to) or "none",
        disable_tqdm=True,
    )


def check_before_loading(
    model: str | LoadedModel, objective: Objective, settings: TrainingSettings, watch: Watch
) -> Objective:
    """Return the objective with blocks of this model in place of shares of its depth.

    Raises InputError for layers and modules that the model does not have, and for libraries that
    are not installed. A model that cannot be outlined is refused when it is loaded.
    """
    trackers = integration_utils.INTEGRATION_TO_CALLBACK
    for name in watch.report_to:
        if name not in trackers:
            raise InputError(f"no tracker {name!r}. {suggestion(name, trackers)}")
        if name not in integration_utils.get_available_reporting_integrations():
            raise InputError(f"tracker {name!r} is not installed. Install it, or name no tracker.")
    if settings.weights.adapters:
        require_peft()
    steers = any(needs.sites for needs in objective.needs.values())
    if not steers and settings.weights.everything:
        return objective
    outline = _outline(model, settings) if isinstance(model, str) else model.model
    if outline is None:
        return objective
    objective = objective.at_depth(outline.config.get_text_config().num_hidden_layers)
    layers = {site.layer for needs in objective.needs.values() for site in needs.sites}
    require_layers(outline, sorted(layers))
    chosen_modules(outline, settings.weights)
    return objective


def _outline(location: str, settings: TrainingSettings) -> Any:
    """The model without its weights, or None where it cannot be made: loading will say why."""
    remote = {"trust_remote_code": settings.trust_remote_code}
    try:
        with quiet(), torch.device("meta"):
            config = AutoConfig.from_pretrained(location, **remote)
            return AutoModelForCausalLM.from_config(config, **remote)
    except (OSError, ValueError, RuntimeError, KeyError, TypeError, ImportError):
        return None
