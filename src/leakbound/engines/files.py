"""Find the files of a model, check them without reading weights, and compute their digests.

The files are checked first, because transformers builds as many layers as a config
states. A wrong number may exhaust the memory. This module does not need torch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from huggingface_hub import snapshot_download
from safetensors import SafetensorError, safe_open

from leakbound.durable import sha256, sha256_of
from leakbound.errors import ModelError, require_no_fault
from leakbound.registry import near

_CONFIG, _GENERATION = "config.json", "generation_config.json"
_WEIGHTS = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_ADAPTER = "adapter_config.json"
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")
TOKENIZER_FORMS = (
    *("tokenizer*", "vocab*", "merges*", "special_tokens*", "added_tokens*", "chat_template*"),
    *("*.model", "*.tiktoken", "tekken.json", "additional_chat_templates/*"),
)
_TEMPLATE = "chat_template.jinja"
_LAYERS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers")
_FEW = 5  # models that a message shows


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model folder and its weight files; `gguf` is the name of a `.gguf` file."""

    folder: Path
    weights: tuple[Path, ...]
    gguf: str | None = None

    @classmethod
    def find(cls, location: str) -> ModelFiles:
        """Find the files at `location`: a folder, a `.gguf` file, or a hub name.

        Raises ModelError if files are missing or incomplete, and for a config with more layers than
        the files have tensors.
        """
        path = Path(location).expanduser()
        if path.is_file():
            if path.suffix != ".gguf":
                raise ModelError(f"`{path}` is a file. Pass a model's folder or a .gguf file.")
            _require_no_adapter(path.parent)
            return cls(path.parent, (path,), gguf=path.name)
        folder = path if path.is_dir() else _download(location)
        _require_no_adapter(folder)
        if not (folder / _CONFIG).is_file():
            below = [file.parent for file in folder.glob("*/config.json")]
            below.sort(key=lambda path: (len(path.name), path.name))  # checkpoints in order
            advice = "Use a model folder."
            if below:
                first = "…, " if len(below) > _FEW else ""
                named = ", ".join(f"`{path}`" for path in below[-_FEW:])
                advice = f"Use a model in one of its subfolders: {first}{named}."
            elif (folder / "run.json").is_file():
                advice = "The folder contains a run. Use the model that the run evaluated."
            raise ModelError(f"`{folder}` has no config.json. {advice}")
        if not any((folder / name).is_file() for name in _TOKENIZER_FILES):
            raise ModelError(
                f"`{folder}` has no tokenizer (looked for {', '.join(_TOKENIZER_FILES)}). "
                "Save the model's tokenizer into the folder."
            )
        weights = _weight_files(folder)
        _require_layers(folder / _CONFIG, sum(map(_tensors, weights)))
        return cls(folder, weights)

    @property
    def settings(self) -> tuple[Path, ...]:
        """The files of settings; empty for a `.gguf` file, which contains the settings."""
        names = () if self.gguf else (_CONFIG, _GENERATION)
        return tuple(file for name in names if (file := self.folder / name).is_file())

    @property
    def tokenizer(self) -> tuple[Path, ...]:
        """The files of the tokenizer and its chat templates; empty for a `.gguf` file."""
        forms = () if self.gguf else TOKENIZER_FORMS
        files = {file for form in forms for file in self.folder.glob(form) if file.is_file()}
        return tuple(sorted(files))

    @property
    def template(self) -> Path:
        """The file with the chat template of the tokenizer."""
        if self.gguf:
            return self.folder / self.gguf
        own = self.folder / _TEMPLATE
        return own if own.is_file() else self.folder / "tokenizer_config.json"


def _download(location: str) -> Path:
    if location.startswith((".", "/", "~")) or location.count("/") > 1:
        hint = near(Path(location).expanduser())
        raise ModelError(f"there is no model folder `{location}`. {hint}Check the path.")
    try:
        return Path(snapshot_download(location, ignore_patterns=["*/*", "*.bin", "*.gguf"]))
    except (OSError, ValueError) as error:
        raise ModelError(
            f"`{location}` is not a folder, and loading it from the hub failed: "
            f"{first_line(error)} Check the name and the network, or use a folder."
        ) from error


def _require_no_adapter(folder: Path) -> None:
    """Raise an error for a folder with an adapter.

    transformers applies an adapter without a message, and no file shows whether the adapter was
    already merged into the weights.
    """
    if not (folder / _ADAPTER).is_file():
        return
    merged = "with peft's `merge_and_unload`, and save model and tokenizer to another folder."
    if not (folder / "config.json").is_file():
        raise ModelError(f"`{folder}` is a PEFT adapter. Merge it into its base model {merged}")
    raise ModelError(
        f"`{folder}` has a model and a PEFT adapter ({_ADAPTER}), which would be applied too. If "
        f"it is already merged, move {_ADAPTER} and adapter_model.* away. If not, merge it {merged}"
    )


def _weight_files(folder: Path) -> tuple[Path, ...]:
    if (folder / _WEIGHTS).is_file():
        return (folder / _WEIGHTS,)
    if (folder / _INDEX).is_file():
        return _shards(folder / _INDEX)
    raise ModelError(
        f"`{folder}` has neither {_WEIGHTS} nor {_INDEX}. "
        "Convert the weights to safetensors with `save_pretrained`."
    )


def _shards(index: Path) -> tuple[Path, ...]:
    """Return the files that an index lists; raise ModelError for an invalid index."""
    try:
        names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        return tuple(index.with_name(name) for name in sorted(names))
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
        raise ModelError(
            f"`{index}` is not a valid index of weights ({type(error).__name__}: "
            f"{first_line(error)}). Restore the model's files."
        ) from error


def _tensors(file: Path) -> int:
    """Return the number of tensors in a file of weights, after checking its header and size."""
    try:
        with safe_open(file, framework="np") as opened:
            return len(opened.keys())
    except (OSError, SafetensorError) as error:
        require_no_fault(file, error)
        raise ModelError(
            f"`{file}` is missing, truncated or damaged ({first_line(error)}). "
            "Copy or download it again."
        ) from error


def _require_layers(config: Path, tensors: int) -> None:
    try:
        stated = json.loads(config.read_bytes())
    except (ValueError, RecursionError):
        return  # transformers refuses it
    if not isinstance(stated, dict):
        return
    counts = (stated.get(name) for name in _LAYERS)
    layers = max((count for count in counts if type(count) is int), default=0)
    if layers > tensors:
        raise ModelError(
            f"`{config}` states {layers:,} layers, but the model's files have only {tensors:,} "
            "tensors, fewer than one per layer. Restore the model's original config."
        )


def named_digest(files: Iterable[Path]) -> str:
    """Return the SHA-256 over the names and contents of files, in order."""
    named = [[file.name, files_digest([file])] for file in files]
    return sha256_of(json.dumps(named))


def files_digest(files: Iterable[Path]) -> str:
    """Return the SHA-256 over the digests of files in order; unchanged files are not read again."""
    stats = [(file, file.stat()) for file in files]
    return _digest(tuple((f, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for f, s in stats))


@lru_cache
def _digest(files: tuple[tuple[Path, int, int, int], ...]) -> str:
    """Return the SHA-256 over the digests of files, cached by their sizes and times."""
    total = hashlib.sha256()
    for file, *_ in files:
        total.update(bytes.fromhex(sha256(file)))
    return total.hexdigest()


def first_line(error: Exception) -> str:
    """Return the first line of an error message, as a sentence."""
    line = str(error).strip().partition("\n")[0] or type(error).__name__
    return line if line.endswith((".", "!", "?")) else f"{line}."
