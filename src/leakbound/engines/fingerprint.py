"""Digests of all that decides a model's next token and the end of its answers, as it was loaded.

The files of a folder do not tell it: a setting may be overridden by another, an end token may stand
in any of three files, and code is imported from elsewhere. So all that is not weights is read off
the objects that the libraries made of them.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import transformers
from transformers.dynamic_module_utils import get_relative_import_files

from leakbound.types import JsonObject

# What a config says of the file it came from, not of the model.
_CONFIG_ORIGIN = frozenset({"_name_or_path", "transformers_version", "dtype", "torch_dtype"})
# Libraries whose version is told, or that no checkpoint brings along.
_KNOWN_CODE = frozenset(
    {"torch", "transformers", "tokenizers", "sentence_transformers", *sys.stdlib_module_names}
)
_LENGTHS = ("truncation", "padding")  # transformers sets them anew for every call
_DYNAMIC = "transformers_modules"  # the package into which transformers copies a folder's code


def fingerprint(
    config: Any, tokenizer: Any, dtype: str, weights: Iterable[Path], model: Any = None
) -> JsonObject:
    """The digests of a loaded causal model, wherever its files lie; `config` is the one in effect.

    `code` is a digest of the Python that came with the model, None where none did. Without
    `model`, which a `Checkpoint` has not read yet, it is that of config and tokenizer.
    """
    settings = {name: v for name, v in config.to_dict().items() if name not in _CONFIG_ORIGIN}
    parts = [config, tokenizer, *(() if model is None else model.modules())]
    return {
        "weights": files_digest(weights),
        "config": digest(settings),
        "tokenizer": _of_tokenizer(tokenizer),
        "code": _of_code({type(part) for part in parts}),
        "dtype": dtype,
        "transformers": transformers.__version__,
        "torch": torch.__version__,
    }


def ordinary_tokens(tokenizer: Any, token_ids: Iterable[int]) -> list[int]:
    """The ones of these tokens that stand for text: neither special nor added to the vocabulary."""
    added = set(tokenizer.added_tokens_decoder) | set(tokenizer.all_special_ids)
    return sorted(set(token_ids) - added)


def _of_tokenizer(tokenizer: Any) -> str:
    """How text becomes tokens and back, which tokens are special, and how a chat is written."""
    if backend := getattr(tokenizer, "backend_tokenizer", None):
        whole = json.loads(backend.to_str())
        words: Any = {name: part for name, part in whole.items() if name not in _LENGTHS}
    else:
        kwargs = tokenizer.init_kwargs.items()
        settings = {name: v for name, v in kwargs if isinstance(v, bool | int | float)}
        added = {i: repr(token) for i, token in tokenizer.added_tokens_decoder.items()}
        words = [type(tokenizer).__name__, settings, tokenizer.get_vocab(), added]
        with TemporaryDirectory() as folder, suppress(NotImplementedError):
            tokenizer.save_vocabulary(folder)
            words = [words, [_file_digest(file) for file in sorted(Path(folder).iterdir())]]
    return digest([words, tokenizer.special_tokens_map, tokenizer.chat_template])


def _of_code(kinds: Iterable[type]) -> str | None:
    """A digest of the source of these classes and their bases; None where libraries have it all."""
    files: set[Path] = set()
    for base in {base for kind in kinds for base in kind.__mro__}:
        package = base.__module__.partition(".")[0]
        if package in _KNOWN_CODE:
            continue
        try:
            file = Path(inspect.getfile(base))
        except (TypeError, OSError):  # made in an interactive session: no file has it
            continue
        files.add(file)
        if package == _DYNAMIC:
            imported = map(Path, get_relative_import_files(file))
            files.update(path for path in imported if path.is_file())
    if not files:
        return None
    return digest(sorted([file.name, _file_digest(file)] for file in files))


def files_digest(files: Iterable[Path]) -> str:
    """SHA-256 over the digests of files in order, read again only once they changed."""
    stats = [(file, file.stat()) for file in files]
    return _weights_digest(tuple((f, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for f, s in stats))


@lru_cache
def _weights_digest(files: tuple[tuple[Path, int, int, int], ...]) -> str:
    """SHA-256 over the weight files in order; size and times of change key the cache."""
    total = hashlib.sha256()
    for file, *_ in files:
        total.update(bytes.fromhex(_file_digest(file)))
    return total.hexdigest()


def _file_digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def digest(value: Any) -> str:
    """SHA-256 of plain values, and of others as they print."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
