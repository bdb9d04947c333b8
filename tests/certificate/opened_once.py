"""Tiny models that know the words of a benchmark; each opens once per session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import leakbound
from leakbound.engines import Prompting, open_engine
from leakbound.store import sha256
from tiny import tiny_llama, tiny_tokenizer

TASK = leakbound.load_benchmark("fictitious", limit=3)
_engines: dict[str, Any] = {}


def tiny_model(path: Path, seed: int) -> Path:
    words = {w for p in TASK.prompts for w in f"{p.question} {p.answer} {p.paraphrases}".split()}
    tokenizer = tiny_tokenizer(sorted(words))
    tiny_llama(len(tokenizer), seed, max_position_embeddings=256).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def opened(model: str, rule: Prompting, **loading: Any) -> Any:
    """Return the open engine of the same files and prompts, or open it."""
    files = sorted(f for f in Path(model).iterdir() if f.is_file() and f.name != "stress.json")
    key = repr([rule, loading, *map(sha256, files)])
    if key not in _engines:
        _engines[key] = open_engine(model, rule, **loading)
    return _engines[key]
