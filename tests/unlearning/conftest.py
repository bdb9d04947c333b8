"""The model that trainings begin with."""

from __future__ import annotations

import pytest

from tiny import tiny_model_folder


@pytest.fixture(scope="module")
def base(embeddings: None, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny one, of either kind of embeddings; a module that wants another has its own."""
    return str(tiny_model_folder(tmp_path_factory.mktemp("base") / "model"))
