"""What the files of a model folder state, checked before a library acts on it.

transformers builds as many layers as a config asks for, and skips generation settings that it
cannot read: the one takes all memory, the other changes where answers end. Needs no torch.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safetensors import safe_open

from leakbound.errors import ModelError, require_no_fault

_CONFIG, _GENERATION = "config.json", "generation_config.json"
_LAYERS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers")


def require_stated(folder: Path, weights: Sequence[Path]) -> None:
    """Refuse a folder that states more layers than its files hold tensors, or no end of answers.

    Raises ModelError, naming the file.
    """
    _require_layers(folder / _CONFIG, weights)
    _require_ends(folder / _GENERATION)


def _require_layers(config: Path, weights: Sequence[Path]) -> None:
    try:
        stated = json.loads(config.read_bytes())
    except (ValueError, RecursionError):
        return  # transformers says so, with its own words
    if not isinstance(stated, dict):
        return
    asked = max((stated[name] for name in _LAYERS if _is_count(stated.get(name))), default=0)
    held = sum(map(_tensors, weights))
    if asked > held:
        raise ModelError(
            f"`{config}` states {asked:,} layers, and the model's files hold {held:,} tensors, "
            "fewer than one for each. Restore the model's own config."
        )


def _tensors(file: Path) -> int:
    """How many tensors a file of weights holds; its header alone is read."""
    with safe_open(file, framework="np") as opened:
        return len(opened.keys())


def _require_ends(file: Path) -> None:
    """Refuse generation settings that cannot be read, or whose end tokens are no tokens."""
    if not file.exists():
        return
    try:
        stated = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        require_no_fault(file, error)
        raise ModelError(
            f"`{file}` cannot be read ({str(error).partition(chr(10))[0]}), and it says where "
            "answers end. Restore it, or remove it if the model has none."
        ) from error
    ends = stated.get("eos_token_id") if isinstance(stated, dict) else "no object"
    listed = ends if isinstance(ends, list) else [ends]
    if not all(end is None or type(end) is int for end in listed):
        raise ModelError(
            f"`{file}` must give token ids as `eos_token_id`, got {ends!r:.60}. Restore it: it "
            "says where answers end."
        )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
