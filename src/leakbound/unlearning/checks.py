"""What can be refused of a training before the weights of its model are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.integrations import integration_utils

from leakbound.engines.loading import LoadedModel, quiet
from leakbound.errors import InputError
from leakbound.losses import Needs
from leakbound.registry import suggestion
from leakbound.unlearning.settings import TrainingSettings, Watch
from leakbound.unlearning.weights import chosen_modules, require_layers, require_peft


def check_before_loading(
    model: str | LoadedModel,
    needs: Mapping[str, Needs],
    settings: TrainingSettings,
    watch: Watch,
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
