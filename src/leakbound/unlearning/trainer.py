"""Train a model on an objective; an interrupted training run resumes from its last checkpoint.

The `Trainer` of transformers runs the steps. The rows of each pass are fixed before training.
"""

from __future__ import annotations

import atexit
import gc
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
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
from leakbound.errors import IncompleteError, InputError, needing
from leakbound.objective import Objective
from leakbound.registry import suggestion
from leakbound.store.files import write_json
from leakbound.store.trained import read_object
from leakbound.types import Headway, Progress
from leakbound.unlearning.batches import Assembly, Frozen, Head
from leakbound.unlearning.examples import Step, pad, schedule
from leakbound.unlearning.forward import Forward, forward_for
from leakbound.unlearning.reference import References, frozen_head, push_at_start
from leakbound.unlearning.settings import SCHEDULES, StepCount, TrainingSettings, Watch
from leakbound.unlearning.weights import (
    chosen_modules,
    fraction_moved,
    require_layers,
    rounded_weights,
    trained,
)
from leakbound.unlearning.work_folder import MOVED, WorkFolder, notes_of

_WEIGHTS = "weights_of_terms.json"  # in a checkpoint
Measure = Callable[[], Mapping[str, float]]  # figures and their names


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """Observers of a training run: a progress callback, and a function that measures the model."""

    watch: Watch
    progress: Progress
    measure: Measure | None = None


@dataclass(frozen=True, slots=True)
class PassShare:
    """The rows of one pass that one process handles, with the frozen model's values.

    `epoch` is the number of earlier epochs. `share` is the weight of these rows among the rows of
    all processes. `of` is the complete step.
    """

    epoch: int
    step: Step
    frozen: Mapping[str, Sequence[Frozen]]
    share: float
    of: Step


@dataclass(frozen=True, slots=True)
class Batches:
    """The steps of a training; with n processes, each process handles every n-th row of a step."""

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
        if not mine:  # every process must take part, if necessary with a row of weight 0
            own = {split: rows[:1] for split, rows in step.items()}
        frozen = self.references.read(own)
        (lead, rows), *_ = self.steps[0].items()
        steps_of_epoch = math.ceil(len(self.assembly.data[lead].examples) / len(rows))
        return {"part": PassShare(index // steps_of_epoch, own, frozen, share, step)}


class ObjectiveTrainer(Trainer):  # type: ignore[misc]
    """A `Trainer` whose loss is an objective and whose batches come in the given order."""

    def __init__(
        self,
        objective: Objective,
        batches: Batches,
        head: Head,
        work: WorkFolder,
        following: Following,
        **arguments: Any,
    ) -> None:
        super().__init__(train_dataset=batches, **arguments)
        self.objective = objective
        self.assembly = batches.assembly
        self.head = head
        self.work = work
        self.following = following
        self.weights = objective.weights  # of the terms, with the current multipliers
        self.terms = torch.zeros(len(objective.terms))
        self.passes = 0
        self.started = time.monotonic()
        self.model_accepts_loss_kwargs = False  # the loss is a mean: Trainer divides by passes

    def compute_loss(self, model: Any, inputs: dict[str, PassShare], **_: Any) -> Tensor:
        """Return the objective for a process's rows; raise IncompleteError if it is not finite."""
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
        """Update each bound's multiplier by the excess over the bound, averaged over processes."""
        beyond = self.accelerator.reduce(shares, "mean").tolist()
        for i, bound in self.objective.bounds.items():
            if epoch >= bound.warmup:
                self.weights[i] = max(0.0, self.weights[i] + bound.step * beyond[i])

    def stop(self, event: str) -> NoReturn:
        """Raise IncompleteError, with a message about the `event` in the current step."""
        last = self.work.checkpoint
        kept = f"the last good checkpoint is `{last}`" if last else "there is no checkpoint"
        raise IncompleteError(
            f"{event} in step {self.state.global_step + 1} of {self.state.max_steps}; no model was "
            f"written, and {kept}. Lower the learning rate, and choose another folder."
        )

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log the values that Trainer logs, and the value of each term of the objective."""
        logs["seconds"] = round(time.monotonic() - self.started, 3)
        if "loss" in logs:
            means = self.accelerator.reduce(self.terms.to(self.args.device) / self.passes, "mean")
            for term, mean in zip(self.objective.terms, means.tolist(), strict=True):
                name = f"{term.split} {term.loss}"  # two recipes may have the same name
                logs[name] = logs.get(name, 0.0) + mean
            self.terms, self.passes = torch.zeros_like(self.terms), 0
            for i in self.objective.bounds:
                term = self.objective.terms[i]
                logs[f"multiplier {term.split} {term.loss}"] = self.weights[i]
        super().log(logs, start_time)

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """Measure and log the model's leakage, without changing the random state of training."""
        self.control.should_evaluate = False
        measure = self.following.measure
        if measure is None or not self.is_world_process_zero():
            return {}
        self.model.eval()
        figures = dict(measure())
        self.log(figures)
        return figures

    def get_train_dataloader(self) -> DataLoader[dict[str, PassShare]]:
        """Return a loader that yields the steps in order, one per batch."""
        return DataLoader(self.train_dataset, batch_size=1, collate_fn=itemgetter(0))

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Write the model, without the wrappers that training adds, and the model's tokenizer."""
        if self.args.should_save:
            self.model.model.save_pretrained(output_dir)
            self.processing_class.save_pretrained(output_dir)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Save Trainer's checkpoint, and flush it to disk so that no power cut destroys it."""
        super()._save_checkpoint(model, trial)
        self.accelerator.wait_for_everyone()  # each process writes its random state
        if self.args.should_save:
            folder = f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
            path = Path(self._get_output_dir(trial), folder)
            if self.objective.bounds:
                write_json(path / _WEIGHTS, {"weights": self.weights})
            self.work.keep(path)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        """Load the files of `save_model` into the model: only the adapters, or every weight.

        If the objective has bounds, also restore the weights of its terms.
        """
        if self.objective.bounds:
            self.weights = read_object(Path(resume_from_checkpoint, _WEIGHTS))["weights"]
        trained = self.model.model
        if hasattr(trained, "peft_config"):
            super()._load_from_checkpoint(resume_from_checkpoint, trained)
        else:  # Trainer would look into a wrapper, and ignore missing weights
            load_weights(trained, Path(resume_from_checkpoint))


class Follow(TrainerCallback):  # type: ignore[misc]
    """Report each step, keep the log, and decide when to measure and to save a checkpoint."""

    def __init__(self, trainer: ObjectiveTrainer) -> None:
        self.trainer = trainer
        self.following = trainer.following
        self.saved = time.monotonic()

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        trainer, history = self.trainer, state.log_history
        if history:
            trainer.started -= history[-1]["seconds"]
        if state.is_world_process_zero:
            trainer.work.write_log([*map(_logged, history)])
        if state.global_step:
            return
        push = push_at_start(trainer.train_dataset.references, trainer.objective)
        if push and state.is_world_process_zero:
            trainer.log(push)
        if self.following.measure:
            trainer.evaluate()

    def on_log(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if not state.is_world_process_zero:
            return
        line = state.log_history[-1]
        if "train_runtime" in line:  # Trainer's last line
            return
        self.trainer.work.add_to_log(_logged(line))
        now = Headway("training", state.global_step, state.max_steps, "steps")
        for note in notes_of([line]):
            self.following.progress(replace(now, note=note))
        if "loss" in line:
            self.following.progress(now)

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
        """Return whether a checkpoint is due in any process; all processes get the same result."""
        waited = time.monotonic() - self.saved
        due = torch.tensor(float(waited >= 60 * self.following.watch.checkpoint_minutes))
        accelerator = self.trainer.accelerator
        agreed = bool(accelerator.reduce(due.to(accelerator.device), "sum") > 0)
        if agreed:
            self.saved = time.monotonic()
        return agreed


def _are_finite(gradients: Sequence[torch.Tensor]) -> bool:
    """Return whether every number is finite; check single numbers only if a sum is not finite."""
    sums = torch.stack([gradient.sum() for gradient in gradients])
    return bool(sums.isfinite().all()) or all(bool(grad.isfinite().all()) for grad in gradients)


def _logged(line: Mapping[str, float]) -> dict[str, float]:
    """Return a log line without Trainer's `epoch`, because Trainer treats all epochs as one."""
    return {name: value for name, value in line.items() if name != "epoch"}


_PROBE = 2  # rows on which forward passes are compared, with all of their logits


def fit(
    loaded: LoadedModel,
    objective: Objective,
    assembly: Assembly,
    settings: TrainingSettings,
    work: WorkFolder,
    following: Following,
) -> None:
    """Train `loaded.model` in place; the same seed on the same machine gives the same weights.

    Training resumes from the last checkpoint in the folder `work`, which must be open. The final
    weights are the same as without an interruption. Trainer seeds the global generators of Python,
    NumPy and torch. `assembly` must be made for the same objective. The frozen reference is the
    model before training. Raises IncompleteError if the objective or a gradient is no longer
    finite.
    """
    model = loaded.model
    require_layers(model, assembly.layers)
    sizes = {split: len(assembly.data[split].examples) for split in objective.splits}
    count = settings.steps_of(next(iter(sizes.values())))
    steps = schedule(
        sizes, epochs=settings.epochs, batch_size=settings.batch_size, seed=settings.seed
    )[: count.passes]
    references = References(work.references, assembly, steps, settings.batch_size)
    before = rounded_weights(model, settings.weights)
    with quiet():
        args = _arguments(settings, following.watch, count, work.path)
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
                work,
                following,
                model=Forward(training, forward.narrow, forward.layers, paired=forward.paired),
                args=args,
                processing_class=loaded.tokenizer,
            )
            trainer.remove_callback(PrinterCallback)
            trainer.add_callback(Follow(trainer))
            trainer.train(resume_from_checkpoint=work.checkpoint and str(work.checkpoint))
    if before:
        trainer.log({MOVED: fraction_moved(before, rounded_weights(model, settings.weights))})
    model.eval()


def on_cpu(settings: TrainingSettings) -> bool:
    """Return whether training uses the CPU, either by its settings or because there is no GPU."""
    return settings.device == "cpu" or not torch.cuda.is_available()


def _leave_the_group() -> None:
    """Destroy the process group before Python exits, because its threads may abort the process.

    The threads end when the last reference to the group is deleted. This reference is in a
    reference cycle of Trainer, so garbage is collected here.
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
            f"{type(model).__name__} cannot recompute activations. Omit `checkpointing`."
        ) from error


def _arguments(
    settings: TrainingSettings, watch: Watch, count: StepCount, folder: Path
) -> TrainingArguments:
    return TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=1,  # one pass over the batches of all epochs
        gradient_accumulation_steps=count.accumulation,
        learning_rate=settings.learning_rate,
        lr_scheduler_type=SCHEDULES[settings.schedule],
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
    """Check an objective and settings for a model; return the objective with the model's layers.

    Layers that are given as fractions of the depth become block numbers. Raises InputError for
    layers and modules that the model lacks, and for missing libraries. If the model cannot be built
    without weights, layers and modules are not checked, and loading the model reports the reason
    later.
    """
    trackers = integration_utils.INTEGRATION_TO_CALLBACK
    for name in watch.report_to:
        if name not in trackers:
            raise InputError(f"there is no tracker {name!r}. {suggestion(name, trackers)}")
        if name not in integration_utils.get_available_reporting_integrations():
            raise InputError(f"tracker {name!r} is not installed. Install it, or use no tracker.")
    if settings.weights.adapters:
        with needing("training adapters", "lora"):
            import peft  # noqa: F401
    steers = any(needs.sites for needs in objective.needs.values())
    if not steers and settings.weights.everything:
        return objective
    outline = _outline(model, settings) if isinstance(model, str) else model.model
    if outline is None:
        return objective
    if steers:
        objective = objective.at_depth(outline.config.get_text_config().num_hidden_layers)
    layers = {site.layer for needs in objective.needs.values() for site in needs.sites}
    require_layers(outline, sorted(layers))
    chosen_modules(outline, settings.weights)
    return objective


def _outline(location: str, settings: TrainingSettings) -> Any:
    """Build the model without its weights; return None if this is not possible.

    Loading the model later reports the reason.
    """
    remote = {"trust_remote_code": settings.trust_remote_code}
    try:
        with quiet(), torch.device("meta"):
            config = AutoConfig.from_pretrained(location, **remote)
            return AutoModelForCausalLM.from_config(config, **remote)
    except (OSError, ValueError, RuntimeError, KeyError, TypeError, ImportError):
        return None
