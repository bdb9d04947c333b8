"""Load complete models from disk or the hub, and save models atomically.

If a checkpoint lacks a tensor, transformers only warns and uses random weights
instead. Such a model looks perfectly unlearned, so this module refuses it. It
also refuses every other fault that would load a model other than the user's.
"""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from transformers.dynamic_module_utils import get_relative_import_files

from leakbound.durable import place
from leakbound.engines.files import ModelFiles, files_digest, first_line, named_digest
from leakbound.engines.templates import require_sound
from leakbound.errors import InputError, LeakboundError, ModelError
from leakbound.types import JsonObject
from leakbound.types.decoding import require

DTYPES = ("float32", "bfloat16", "float16", "auto")
DEVICES = ("cpu", "cuda", "auto")
_ENCODERS = ("ForMaskedLM", "ForPreTraining")
_TOKEN_IDS = frozenset({"bos_token_id", "eos_token_id", "pad_token_id"})
_FEW = 5  # tokens that a note shows
_DYNAMIC = "transformers_modules"  # the package into which transformers copies a model's code
# Generation settings that cannot change the choice of the next token.
_HARMLESS = frozenset({"transformers_version", "use_cache"})


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A causal language model ready to run, with its fingerprint.

    Attributes:
        model: the transformers model, in evaluation mode if it was loaded here.
        tokenizer: its tokenizer.
        eos_token_ids: tokens that end a completion.
        context_length: the largest number of tokens that the model processes; None if the config
            has no limit.
        fingerprint: a description of the model, which does not depend on its folder. Models with
            equal fingerprints have the same next-token distribution and the same end tokens. Empty
            for a model that a user loaded.
    """

    model: Any
    tokenizer: Any
    eos_token_ids: frozenset[int]
    context_length: int | None
    fingerprint: JsonObject


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model whose files were read, except for the weights; `load` reads the weights.

    Attributes:
        location: the name of the model.
        files: its folder and files of weights.
        config: the transformers config.
        tokenizer: the transformers tokenizer.
        dtype: the type in which `load` reads the weights.
        device: the device onto which `load` puts the weights.
        common: the settings of every call that reads a part of the model.
    """

    location: str
    files: ModelFiles
    config: Any
    tokenizer: Any
    dtype: str
    device: torch.device
    common: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def open(
        cls,
        location: str,
        *,
        dtype: str = "float32",
        device: str = "auto",
        trust_remote_code: bool = False,
        gguf: bool = False,
    ) -> Checkpoint:
        """Find the model and read everything except its weights.

        Args:
            location: a folder or a hub name.
            dtype: the type of the weights: "float32" (default), "bfloat16", "float16", or "auto"
                (as stored).
            device: "cpu", "cuda", or "auto" (default): a GPU if there is one.
            trust_remote_code: whether to run code that came with the model.
            gguf: whether to accept a `.gguf` file.

        Returns:
            The checkpoint.

        Raises:
            InputError: an unknown dtype or device.
            ModelError: a model that cannot be used, or "cuda" without a GPU.
        """
        for name, value, allowed in (("device", device, DEVICES), ("dtype", dtype, DTYPES)):
            require(value in allowed, name, value, f"one of {', '.join(allowed)}")
        available = torch.cuda.is_available()
        if device == "cuda" and not available:
            raise ModelError("`device` is 'cuda' but torch finds no GPU. Use 'cpu' or 'auto'.")
        on = torch.device("cuda" if available and device != "cpu" else "cpu")
        files = ModelFiles.find(location)
        common: dict[str, Any] = {"trust_remote_code": trust_remote_code}
        if files.gguf and not gguf:
            raise ModelError(f"`{location}` is a .gguf file. Use a folder with safetensors files.")
        if files.gguf:
            common["gguf_file"] = files.gguf
        with quiet(), _refusing(location):
            config = AutoConfig.from_pretrained(files.folder, **common)
            tokenizer = AutoTokenizer.from_pretrained(files.folder, **common)
        return cls(location, files, config, tokenizer, dtype, on, common)

    @property
    def fingerprint(self) -> JsonObject:
        """A description of the model, see `LoadedModel.fingerprint`."""
        return self.fingerprint_of(self.dtype, [self.config, self.tokenizer])

    def fingerprint_of(self, dtype: str, parts: Iterable[Any]) -> JsonObject:
        """Return digests of everything that determines the next token and the ends of answers.

        Weights, settings and tokenizers are read from the model's files. Code is found through the
        classes of the loaded objects, because a config may name code in another repository.

        Args:
            dtype: the type of the weights.
            parts: the objects that the libraries made from the files.

        Returns:
            The digests, which do not depend on the folder. `code` is the digest of the Python that
            came with the model, or None.
        """
        kinds = {kind for part in parts for kind in type(part).__mro__}
        own = {inspect.getfile(kind) for kind in kinds if kind.__module__.startswith(_DYNAMIC)}
        code = {Path(name) for file in own for name in (file, *get_relative_import_files(file))}
        return {
            "weights": files_digest(self.files.weights),
            "config": named_digest(self.files.settings),
            "tokenizer": named_digest(self.files.tokenizer),
            "code": named_digest(sorted(file for file in code if file.is_file())) if code else None,
            "dtype": dtype,
            "transformers": transformers.__version__,
            "torch": torch.__version__,
        }

    @property
    def eos_token_ids(self) -> frozenset[int]:
        """The tokens that end a completion, see `LoadedModel.eos_token_ids`.

        The tokens are read before the weights, because transformers ignores generation settings
        that it cannot read when it loads weights.
        """
        with quiet(), _refusing(self.location):
            if (self.files.folder / "generation_config.json").exists():
                stated = GenerationConfig.from_pretrained(self.files.folder)
            else:
                stated = GenerationConfig.from_model_config(self.config)
        return _ends(self.location, stated, self.config, self.tokenizer)

    def require_sound(self) -> None:
        """Raise ModelError for invalid end tokens or an invalid chat template; see `templates`.

        Raises:
            ModelError: invalid end tokens, or a template that leaves the question out.
        """
        _ = self.eos_token_ids
        require_sound(self.tokenizer, str(self.files.template))

    def load(self, kind: Any) -> Any:
        """Load the weights into a model of a transformers Auto class.

        Args:
            kind: the Auto class.

        Returns:
            The model, on the device and in evaluation mode.

        Raises:
            ModelError: weights that are incomplete or cannot be read.
        """
        model = _read(kind, self.location, self.files, self.dtype, **self.common)
        return model.to(self.device).eval()


def live_model(model: Any, tokenizer: Any) -> LoadedModel:
    """Wrap a causal model that a user loaded, without changing it.

    Only the end tokens of the model's generation config are used. The result has no fingerprint,
    because a training step may change the weights.

    Args:
        model: the transformers model.
        tokenizer: its tokenizer.

    Returns:
        The model in the form that engines accept.

    Raises:
        ModelError: none of the model's end tokens is in its vocabulary, so that no answer could
        end.
    """
    ends = _ends("the model", model.generation_config, model.config, tokenizer)
    length = getattr(model.config, "max_position_embeddings", None)
    return LoadedModel(model, tokenizer, ends, length, {})


def load_model(
    location: str,
    *,
    dtype: str = "float32",
    device: str = "auto",
    trust_remote_code: bool = False,
    before: Callable[[Any], object] | None = None,
) -> LoadedModel:
    """Load the model at `location`.

    Every tensor of the model comes from safetensors or GGUF files with its name and shape. Only the
    special token ids of the checkpoint's generation config are used, so none of its sampling
    defaults can truncate a distribution. The fingerprint records its other settings. Errors in the
    files are reported before any weight is loaded.

    Args:
        location: a folder, a `.gguf` file (dequantised), or a hub name.
        dtype: the type of the weights: "float32" (default), "bfloat16", "float16", or "auto"
            (as stored).
        device: "cpu", "cuda", or "auto" (default): a GPU if there is one.
        trust_remote_code: whether to run code that came with the model.
        before: called with the tokenizer before any weight is loaded; its exceptions propagate.

    Returns:
        The model, on the device and in evaluation mode.

    Raises:
        InputError: an unknown dtype or device.
        ModelError: a model that cannot be used, or "cuda" without a GPU.
    """
    checkpoint = Checkpoint.open(
        location, dtype=dtype, device=device, trust_remote_code=trust_remote_code, gguf=True
    )
    tokenizer = checkpoint.tokenizer
    checkpoint.require_sound()
    if before is not None:
        before(tokenizer)
    model = checkpoint.load(AutoModelForCausalLM)
    settings = model.generation_config.to_diff_dict()
    kept = {name: value for name, value in settings.items() if name in _TOKEN_IDS}
    model.generation_config = GenerationConfig(**kept)
    ignored = {
        name: value
        for name, value in sorted(settings.items())
        if name not in _TOKEN_IDS | _HARMLESS and not name.startswith(("_", "output_"))
    }
    _require_causal(location, model)
    dtype = str(model.dtype).removeprefix("torch.")
    ends = checkpoint.eos_token_ids
    return LoadedModel(
        model=model,
        tokenizer=tokenizer,
        eos_token_ids=ends,
        context_length=getattr(model.config, "max_position_embeddings", None),
        fingerprint={
            **checkpoint.fingerprint_of(dtype, [model.config, tokenizer, *model.modules()]),
            "end_tokens": sorted(ends),
            "ordinary_end_tokens": ordinary_tokens(tokenizer, ends),
            "generation_config_ignored": ignored,
        },
    )


def ordinary_tokens(tokenizer: Any, token_ids: Iterable[int]) -> list[int]:
    """Return the tokens that are text.

    Args:
        tokenizer: the tokenizer of the model.
        token_ids: tokens of any kind.

    Returns:
        The tokens that are neither special nor added to the vocabulary, sorted.
    """
    added = set(tokenizer.added_tokens_decoder) | set(tokenizer.all_special_ids)
    return sorted(set(token_ids) - added)


def end_notes(tokenizer: Any, stated: Collection[int], ends: Collection[int]) -> list[str]:
    """Describe unusual tokens that end the outputs of a model.

    Args:
        tokenizer: the tokenizer of the model.
        stated: the end tokens that the model's files state.
        ends: the tokens that end an output.

    Returns:
        At most two notes. One note lists up to five ordinary tokens that end outputs. The other
            note lists the tokens that end outputs although the model's files do not list them.
    """
    notes = []
    if ordinary := ordinary_tokens(tokenizer, stated):
        words = tokenizer.convert_ids_to_tokens(ordinary[:_FEW])
        some = ", ".join(f"{word!r} ({i})" for word, i in zip(words, ordinary, strict=False))
        more = f" and {len(ordinary) - _FEW:,} more" if len(ordinary) > _FEW else ""
        notes.append(
            "the model's generation_config or config lists ordinary tokens as end tokens: "
            f"{some}{more}. Outputs end at these tokens; text that would follow is not sampled"
        )
    if added := sorted({*ends} - {*stated}):
        names = ", ".join(map(repr, tokenizer.convert_ids_to_tokens(added)))
        notes.append(
            f"outputs also end at {names} (the chat's end of turn, or --end-token), which the "
            "model's files do not list as `eos_token_id`"
        )
    return notes


def save_model(
    model: Any, tokenizer: Any, path: Path, *, files: Mapping[str, str] | None = None
) -> None:
    """Write a model folder atomically: into a temporary sibling, which is renamed to `path`.

    All bytes are flushed to disk before the rename, and the new name is flushed after it. So a
    power cut leaves the complete folder or nothing.

    Args:
        model: the transformers model.
        tokenizer: its tokenizer.
        path: the folder to make.
        files: additional files to write next to the weights: their texts by file name (None: no
            files).

    Raises:
        InputError: `path` exists.
    """
    if path.exists():
        raise InputError(f"`{path}` exists. Remove it or choose another folder.")
    partial = partial_of(path)
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(mode=0o700, parents=True)
    with quiet():
        model.save_pretrained(partial)
        tokenizer.save_pretrained(partial)
    for name, text in (files or {}).items():
        (partial / name).write_text(text, encoding="utf-8")
    for file in partial.rglob("*"):
        file.chmod(0o700 if file.is_dir() else 0o600)  # also once the folder is opened to others
    place(partial, path)


def partial_of(path: Path) -> Path:
    """Return the temporary sibling of a model folder that is being written.

    Args:
        path: the folder to make.

    Returns:
        A hidden sibling of `path`.
    """
    return path.with_name(f".{path.name}.partial")


def load_weights(model: Any, folder: Path) -> None:
    """Load into `model` all weights that were saved to `folder`, including tied weights.

    Args:
        model: the transformers model, which is changed.
        folder: the folder into which it was saved.

    Raises:
        ModelError: a weight that is missing, or files that cannot be read.
    """
    location, dtype = str(folder), str(model.dtype).removeprefix("torch.")
    kept = _read(type(model), location, ModelFiles.find(location), dtype)
    with _refusing(location):
        model.load_state_dict(kept.state_dict())


@contextmanager
def quiet() -> Iterator[None]:
    """Hide transformers' progress bars and load reports inside this context."""
    logging = transformers.utils.logging
    bars, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity(logging.CRITICAL)
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def _read(kind: Any, location: str, files: ModelFiles, dtype: str, **common: Any) -> Any:
    """Return the model with all tensors from its files; raise ModelError if one is missing."""
    more: dict[str, Any] = {"use_safetensors": True}
    if files.gguf:
        # transformers can compute on packed blocks, so request dense weights
        config = getattr(transformers, "GgufConfig", None)
        more = {"quantization_config": config(dequantize=True)} if config else {}
    with quiet(), _refusing(location):
        model, info = kind.from_pretrained(
            files.folder,
            dtype=dtype if dtype == "auto" else getattr(torch, dtype),
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # refused below, with the names of the tensors
            **common,
            **more,
        )
    for kind_of_fault, names in (
        ("lacks", info["missing_keys"]),
        ("has unknown", info["unexpected_keys"]),
        ("has wrongly shaped", [name for name, *_ in info["mismatched_keys"]]),
    ):
        if names:
            some = ", ".join(sorted(names)[:3]) + (", ..." if len(names) > 3 else "")
            raise ModelError(
                f"`{location}` {kind_of_fault} tensors ({len(names)}): {some}. The loaded model "
                "would differ from its checkpoint. Use a complete checkpoint of this architecture."
            )
    return model


@contextmanager
def _refusing(location: str) -> Iterator[None]:
    """Raise ModelError for any exception of transformers about a bad checkpoint."""
    try:
        yield
    except (LeakboundError, MemoryError, torch.OutOfMemoryError):
        raise  # not a fault of the checkpoint
    except Exception as error:  # a truncated file may fail at any place that reads it
        remedy = "Check the model's files and the installed version of transformers."
        if "trust_remote_code" in str(error):
            remedy = "The model needs its own code. Read the code, then pass --trust-remote-code."
        raise ModelError(f"`{location}` cannot be loaded: {first_line(error)} {remedy}") from error


def _require_causal(location: str, model: Any) -> None:
    """Raise ModelError for a model whose logits after a token depend on later tokens.

    transformers loads an encoder that was trained to fill in masked tokens as a generating model
    without an error.
    """
    made = getattr(model.config, "architectures", None) or [type(model).__name__]
    decoder = getattr(model.config, "is_decoder", False)
    looks_ahead = all(name.endswith(_ENCODERS) for name in made) and not decoder
    if not looks_ahead and model.get_input_embeddings().num_embeddings >= 4:
        with quiet(), _refusing(location), torch.no_grad():
            pairs = (torch.tensor([[1, i]], device=model.device) for i in (2, 3))
            first, other = (model(input_ids=ids).logits[0, 0].float() for ids in pairs)
        rounding = 1e-4 if model.dtype == torch.float32 else 5e-2
        looks_ahead = bool((first - other).abs().max() > rounding * first.abs().max())
    if looks_ahead:
        raise ModelError(
            f"`{location}` is not a causal language model ({', '.join(made)}), because its logits "
            "after a token depend on later tokens. Use a model that generates from left to right, "
            "such as a ...ForCausalLM."
        )


def _ends(
    location: str, generation: GenerationConfig, config: Any, tokenizer: Any
) -> frozenset[int]:
    """Return the tokens that end a completion; raise ModelError if none of them can be drawn."""
    of_model = generation.eos_token_id
    listed = of_model if isinstance(of_model, list) else [of_model]
    size = config.get_text_config().vocab_size
    if wrong := [i for i in listed if i is not None and i not in range(size)]:
        raise ModelError(
            f"{location} has `eos_token_id` {wrong[0]!r:.60} in its generation_config.json or "
            f"config.json, but its token ids are 0 to {size - 1:,}. Set `eos_token_id` to the "
            "token that ends an answer, or to a list of such tokens."
        )
    stated = {int(i) for i in (*listed, tokenizer.eos_token_id) if i is not None}
    within = frozenset(i for i in stated if i < size)
    if stated and not within:
        raise ModelError(
            f"`{location}` ends answers at token {min(stated):,}, but its vocabulary has only "
            f"{size:,} tokens, so no answer could end. Set `eos_token_id` in "
            "generation_config.json to a token of the vocabulary."
        )
    return within
