"""The initial models of trainings, made once per session for either kind of embeddings."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared import keep
from tiny import are_tied, cache_by_kind, tiny_model_folder


@cache_by_kind
def initial(session: Path, name: str, **config: float) -> Path:
    return keep(tiny_model_folder(session / f"{name} {are_tied()}", **config))


@pytest.fixture(scope="module")
def base(embeddings: None, tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(initial(tmp_path_factory.getbasetemp(), "base"))


@pytest.fixture(scope="module")
def dropping(embeddings: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with dropout, whose random numbers no other code may use."""
    return initial(tmp_path_factory.getbasetemp(), "dropping", attention_dropout=0.2)
