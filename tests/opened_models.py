"""Local files like those of TOFU, and fakes of models that studies open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from canned import LEAK, SpyEngine
from leakbound.engines.files import ModelFiles
from leakbound.study import settings as opening

ROWS = [
    {
        "question": f"What is {i}?",
        "answer": LEAK,
        "paraphrased_question": f"Tell me, what is {i}?",
        "paraphrased_answer": LEAK,
        "perturbed_answer": ["a", "b", "c"],
    }
    for i in range(2)
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "tofu"
    folder.mkdir()
    for name in ("forget10", "forget10_perturbed", "retain90", "holdout10"):
        (folder / f"{name}.json").write_text(json.dumps(ROWS))
    return folder


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Open fakes instead of engines, and record the arguments."""
    wanted: list[Any] = []

    def open_engine(model: str, prompting: Any, **loading: Any) -> SpyEngine:
        wanted.append((model, prompting, loading))
        return SpyEngine(lambda query, decoding: 0.4, name=model)

    monkeypatch.setattr(opening, "open_engine", open_engine)
    monkeypatch.setattr(ModelFiles, "find", lambda location: None)
    return wanted
