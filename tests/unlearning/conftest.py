"""The initial models of trainings, with either kind of embeddings."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiny import tiny_model_folder


@pytest.fixture(scope="module")
def base(embeddings: None, tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_model_folder(tmp_path_factory.mktemp("base") / "model"))


@pytest.fixture(scope="module")
def dropping(embeddings: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with dropout, whose random numbers nothing else may use."""
    return tiny_model_folder(tmp_path_factory.mktemp("base") / "model", attention_dropout=0.2)
