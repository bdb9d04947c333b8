"""Model folders that are damaged, hostile, huge or incomplete.

The command line evaluates each. Except for `TAKEN`, whose output distribution is correct, it must
refuse the folder with the problem and the fix, and run none of its code.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from hostile.logs import DEEP, Outcome, called
from tiny import edit, tiny_model_folder

Spoil = Callable[[Path], object]
"""Changes a valid model folder."""

_WEIGHTS, _CONFIG = "model.safetensors", "config.json"
_TOKENIZER, _SETTINGS = "tokenizer.json", "tokenizer_config.json"
_SHARDS = "model.safetensors.index.json"


def made(folder: Path, name: str) -> Path:
    """Write the hostile model of this name into the folder."""
    path = tiny_model_folder(folder / "model")
    MODELS[name](path)
    return path


def _text(file: str, text: str | bytes) -> Spoil:
    def spoil(folder: Path) -> None:
        (folder / file).write_bytes(text.encode() if isinstance(text, str) else text)

    return spoil


def _gone(*files: str) -> Spoil:
    def spoil(folder: Path) -> None:
        for file in files:
            (folder / file).unlink(missing_ok=True)

    return spoil


def _cut(file: str, keep: float) -> Spoil:
    def spoil(folder: Path) -> None:
        raw = (folder / file).read_bytes()
        (folder / file).write_bytes(raw[: int(len(raw) * keep)])

    return spoil


def _set(file: str, **values: Any) -> Spoil:
    return lambda folder: edit(folder / file, **values)


def _config(**values: Any) -> Spoil:
    return _set(_CONFIG, **values)


def _template(text: str) -> Spoil:
    return _set(_SETTINGS, chat_template=text)


def _header(change: Callable[[dict[str, Any]], object]) -> Spoil:
    """Rewrite the header of the file of weights and keep the bytes of the tensors."""

    def spoil(folder: Path) -> None:
        raw = (folder / _WEIGHTS).read_bytes()
        (size,) = struct.unpack("<Q", raw[:8])
        header = json.loads(raw[8 : 8 + size])
        change(header)
        text = json.dumps(header).encode()
        (folder / _WEIGHTS).write_bytes(struct.pack("<Q", len(text)) + text + raw[8 + size :])

    return spoil


def _first(header: dict[str, Any]) -> dict[str, Any]:
    """Return the header of one tensor."""
    name = next(name for name in header if name != "__metadata__")
    got: dict[str, Any] = header[name]
    return got


def _nan(folder: Path) -> None:
    raw = bytearray((folder / _WEIGHTS).read_bytes())
    raw[-4000:] = struct.pack("<f", float("nan")) * 1000
    (folder / _WEIGHTS).write_bytes(raw)


def _pickle(folder: Path) -> None:
    """Weights that run code as they are read."""
    (folder / _WEIGHTS).unlink()
    code = b"cos\nsystem\n(S'touch " + str(folder / "ran").encode() + b"'\ntR."
    (folder / "pytorch_model.bin").write_bytes(code)


def _code(folder: Path) -> None:
    """A custom model type, whose Python code writes a file."""
    own = {"AutoConfig": "evil.C", "AutoModelForCausalLM": "evil.M"}
    edit(folder / _CONFIG, model_type="evil", auto_map=own)
    (folder / "evil.py").write_text(f"open({str(folder / 'ran')!r}, 'w')\n")


def _shards(text: str | bytes) -> Spoil:
    def spoil(folder: Path) -> None:
        (folder / _WEIGHTS).rename(folder / "model-1.safetensors")
        _text(_SHARDS, text)(folder)

    return spoil


def _folder_for(file: str) -> Spoil:
    def spoil(folder: Path) -> None:
        (folder / file).unlink()
        (folder / file).mkdir()

    return spoil


def tensors(**changes: torch.Tensor | None) -> Spoil:
    """Replace tensors in the file of weights, or remove them (None)."""

    def spoil(folder: Path) -> None:
        got = load_file(folder / _WEIGHTS) | changes
        kept = {name: tensor for name, tensor in got.items() if tensor is not None}
        save_file(kept, folder / _WEIGHTS, metadata={"format": "pt"})

    return spoil


NORM = "model.norm.weight"
_INDICES = (
    *("", "{", "[]", "{}", DEEP, b"\x80"),
    *('{"weight_map": 3}', '{"weight_map": {"a": 3}}'),
    '{"weight_map": {"a": "../../elsewhere.safetensors"}}',
)
MODELS: Mapping[str, Spoil] = {
    "an empty config": _text(_CONFIG, ""),
    "a config that is a list": _text(_CONFIG, "[]"),
    "a config nested too deeply": _text(_CONFIG, DEEP),
    "no config": _gone(_CONFIG),
    "an unknown model type": _config(model_type="evil"),
    "code of its own": _code,
    "a vocabulary of 10^12": _config(vocab_size=10**12),
    "a smaller vocabulary": _config(vocab_size=5),
    "a width of 0": _config(hidden_size=0),
    "no layers": _config(num_hidden_layers=0),
    "more layers than weights": _config(num_hidden_layers=4),
    "10^9 layers": _config(num_hidden_layers=10**9),
    "a length of 0": _config(max_position_embeddings=0),
    "an unknown dtype": _config(dtype="evil"),
    "another architecture": _config(architectures=["BertForMaskedLM"], model_type="bert"),
    "an unknown quantisation": _config(quantization_config={"quant_method": "evil"}),
    "no weights": _gone(_WEIGHTS),
    "weights cut in half": _cut(_WEIGHTS, 0.5),
    "a header of 2^63 bytes": _text(_WEIGHTS, struct.pack("<Q", 1 << 63) + b"{}"),
    "a header that is no JSON": _text(_WEIGHTS, struct.pack("<Q", 8) + b"nonsense"),
    "a tensor beyond the file": _header(lambda h: _first(h).update(data_offsets=[0, 1 << 60])),
    "a tensor less": tensors(**{NORM: None}),
    "a tensor more": tensors(**{"model.extra.weight": torch.ones(3)}),
    "a misshapen tensor": tensors(**{NORM: torch.ones(3)}),
    "weights that are no numbers": _nan,
    "weights that are a pickle": _pickle,
    "weights that are a folder": _folder_for(_WEIGHTS),
    **{f"an index of shards {text[:40]!r}": _shards(text) for text in _INDICES},
    "an index of shards that are not there": _shards('{"weight_map": {"a": "m.safetensors"}}'),
    "an adapter beside the weights": lambda folder: (folder / "adapter_config.json").write_text(
        '{"peft_type": "LORA", "r": 1}'
    ),
    "a run": lambda folder: (folder / _CONFIG).rename(folder / "run.json"),
    "no tokenizer": _gone(_TOKENIZER, _SETTINGS),
    "a tokenizer cut short": _cut(_TOKENIZER, 0.5),
    "a tokenizer of an unknown kind": _set(_TOKENIZER, model={"type": "evil"}),
    "a tokenizer class of its own": _set(
        _SETTINGS, tokenizer_class="Evil", auto_map={"AutoTokenizer": ["evil.T", None]}
    ),
    "a template that counts too far": _template("{% for i in range(10**12) %}{{ i }}{% endfor %}"),
    "a template that leaves the question out": _template("Say hello."),
    "a template that is no Jinja": _template("{% for %}"),
    "a template that reaches for Python": _template("{{ ''.__class__.__subclasses__() }}"),
    "a template that divides by 0": _template("{{ 1 / 0 }}"),
    "a template that is a number": _set(_SETTINGS, chat_template=7),
    "an end token that is text": _text("generation_config.json", '{"eos_token_id": "x"}'),
    "generation settings cut short": _text("generation_config.json", "{"),
}  # fmt: skip
TAKEN = frozenset({"an unknown quantisation"})
"""transformers skips it; all weights are present, each in its own shape."""
REASONS: Mapping[str, str] = {
    "no config": r"no config\.json. Use a model folder",
    "a run": r"The folder contains a run\. Use the model that the run evaluated\.",
    "an unknown model type": "cannot be loaded",
    "code of its own": "--trust-remote-code",
    "weights cut in half": "truncated or damaged",
    "a tensor less": f"lacks tensors .*{NORM}",
    "a tensor more": "has unknown tensors .*model.extra.weight",
    "a misshapen tensor": f"has wrongly shaped tensors .*{NORM}",
    "weights that are a pickle": "Convert the weights to safetensors",
    "an index of shards that are not there": r"m\.safetensors` is missing",
    "no tokenizer": "has no tokenizer",
    **{
        name: r"index\.json` is not a valid index of weights"
        for name in MODELS
        if name.startswith("an index of shards ") and "not there" not in name
    },
}
"""Words of some messages."""


def outcome(name: str, folder: Path) -> Outcome:
    """Return the outcome of evaluating the hostile model of this name."""
    model, run = made(folder, name), folder / "run"
    questions = folder / "q.csv"
    questions.write_text("question,answer\nwho wrote red,Ann\n")
    how = ("--benchmark", questions, "-n", 16, "--max-new-tokens", 4, "--device", "cpu")
    page = run / "report.html"  # failed questions may leave a run, never a report
    command = ("evaluate", model, *how, "--out", run)
    got = called(command, taken=name in TAKEN, named=model, unmade=page)
    return ("wrong", "its code was run") if (model / "ran").exists() else got
