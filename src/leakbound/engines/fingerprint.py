"""Digests of all that decides a model's next token and the end of its answers.

Weights, settings and tokenizers are read from the model's files. Code is found by the classes that
the libraries made, because a config may name code that is stored elsewhere.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.dynamic_module_utils import get_relative_import_files

from leakbound.engines.files import ModelFiles
from leakbound.types import JsonObject

_DYNAMIC = "transformers_modules"  # the package into which transformers copies a model's code


def fingerprint(files: ModelFiles, dtype: str, parts: Iterable[Any]) -> JsonObject:
    """Return the digests of a model, equal wherever its files are stored.

    `parts` are the objects that the libraries made of the files. `code` is a digest of the Python
    that came with the model, None if none did.
    """
    kinds = {kind for part in parts for kind in type(part).__mro__}
    own = {inspect.getfile(kind) for kind in kinds if kind.__module__.startswith(_DYNAMIC)}
    code = {Path(name) for file in own for name in (file, *get_relative_import_files(file))}
    return {
        "weights": files_digest(files.weights),
        "config": named_digest(files.settings),
        "tokenizer": named_digest(files.tokenizer),
        "code": named_digest(sorted(file for file in code if file.is_file())) if code else None,
        "dtype": dtype,
        "transformers": transformers.__version__,
        "torch": torch.__version__,
    }


def ordinary_tokens(tokenizer: Any, token_ids: Iterable[int]) -> list[int]:
    """Return the tokens that are text: neither special nor added to the vocabulary."""
    added = set(tokenizer.added_tokens_decoder) | set(tokenizer.all_special_ids)
    return sorted(set(token_ids) - added)


def named_digest(files: Iterable[Path]) -> str:
    """SHA-256 over the names and contents of files, in order."""
    named = [[file.name, files_digest([file])] for file in files]
    return hashlib.sha256(json.dumps(named).encode()).hexdigest()


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
