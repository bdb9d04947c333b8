"""Lowering an objective: one training, from wherever it stands to its end."""

from __future__ import annotations

import atexit
import gc
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from transformers import AutoConfig, AutoModelForCausalLM, PrinterCallback, TrainingArguments
from transformers.integrations import integration_utils

from leakbound.engines.loading import LoadedModel, quiet
from leakbound.errors import InputError
from leakbound.losses import Needs
from leakbound.objective import Objective
from leakbound.registry import suggestion
from leakbound.unlearning.batches import Assembly
from leakbound.unlearning.examples import pad, schedule
from leakbound.unlearning.forward import Forward, forward_for
from leakbound.unlearning.reference import References, frozen_head
from leakbound.unlearning.settings import TrainingSettings, Watch
from leakbound.unlearning.trainer import Batches, Follow, Following, ObjectiveTrainer
from leakbound.unlearning.weights import chosen_modules, require_layers, require_peft, trained
from leakbound.unlearning.work_folder import WorkFolder

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
    steps = schedule(
        sizes, epochs=settings.epochs, batch_size=settings.batch_size, seed=settings.seed
    )
    references = References(kept.references, assembly, steps, settings.batch_size)
    with quiet():
        args = _arguments(settings, following.watch, len(steps), kept.path)
        if args.world_size > 1:
            atexit.register(_leave_the_group)
        forward = _forward_and_frozen(model.to(args.device), references, args)
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


def _forward_and_frozen(model: Any, references: References, args: TrainingArguments) -> Forward:
    """The model's forward pass, after the frozen values have been computed with it."""
    assembly = references.assembly
    first = assembly.data[next(iter(assembly.data))].examples[:_PROBE]
    forward = forward_for(model, pad(first).to(args.device), assembly.layers)
    half = torch.autocast(args.device.type, torch.bfloat16, enabled=args.bf16)
    with args.main_process_first(local=False), half:
        references.compute(forward, args.device)
    return forward


def _checkpoint_activations(model: Any) -> None:
    enable = getattr(model, "activation_checkpointing_enable", None)  # transformers' newer name
    try:
        (enable or model.gradient_checkpointing_enable)({"use_reentrant": False})
    except ValueError as error:
        raise InputError(
            f"{type(model).__name__} cannot compute activations again. Leave `checkpointing` out."
        ) from error


def _arguments(
    settings: TrainingSettings, watch: Watch, batches: int, folder: Path
) -> TrainingArguments:
    steps = math.ceil(batches / settings.accumulation)
    return TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=1,  # one pass over the batches of all epochs
        gradient_accumulation_steps=settings.accumulation,
        learning_rate=settings.learning_rate,
        lr_scheduler_type=_SCHEDULES[settings.schedule],
        warmup_steps=math.ceil(settings.warmup_ratio * steps),
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
    model: str | LoadedModel, needs: Mapping[str, Needs], settings: TrainingSettings, watch: Watch
) -> None:
    """Refuse layers and modules the model does not have, and libraries that are not installed."""
    _require_trackers(watch.report_to)
    if settings.weights.adapters:
        require_peft()
    layers = sorted({site.layer for each in needs.values() for site in each.sites})
    if not layers and settings.weights.everything:
        return
    outline = _outline(model, settings) if isinstance(model, str) else model.model
    if outline is not None:
        require_layers(outline, layers)
        chosen_modules(outline, settings.weights)


def _outline(location: str, settings: TrainingSettings) -> Any:
    """The model without its weights, or None where it cannot be made: loading will say why."""
    remote = {"trust_remote_code": settings.trust_remote_code}
    try:
        with quiet(), torch.device("meta"):
            config = AutoConfig.from_pretrained(location, **remote)
            return AutoModelForCausalLM.from_config(config, **remote)
    except (OSError, ValueError, RuntimeError, KeyError, TypeError, ImportError):
        return None


def _require_trackers(names: tuple[str, ...]) -> None:
    known = integration_utils.INTEGRATION_TO_CALLBACK
    for name in names:
        if name not in known:
            raise InputError(f"no tracker {name!r}. {suggestion(name, known)}")
        if name not in integration_utils.get_available_reporting_integrations():
            raise InputError(f"tracker {name!r} is not installed. Install it, or name no tracker.")
