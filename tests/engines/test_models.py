from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from chatting import chat_tokenizer
from leakbound.engines.models import OpenModels, open_scorer
from leakbound.errors import InputError
from leakbound.scorers import fingerprint
from leakbound.scorers.wording import Keyword
from tiny import tiny_llama
from tiny_classifiers import sequence_classifier, yes_no_model


def test_a_model_is_opened_once_until_its_files_change(tmp_path: Path) -> None:
    folder = str(sequence_classifier(tmp_path / "c"))
    first = OpenModels().classify(folder)
    assert OpenModels().classify(folder) is first
    assert OpenModels(dtype="bfloat16").classify(folder) is not first
    sequence_classifier(tmp_path / "c", seed=1)
    assert OpenModels().classify(folder) is not first
    asked = f"yes-no:{yes_no_model(tmp_path / 'm')}"
    first = OpenModels().classify(asked)
    assert OpenModels().classify(asked) is first
    yes_no_model(tmp_path / "m", seed=1)
    assert OpenModels().classify(asked) is not first


def test_a_scorer_is_opened_with_its_model(tmp_path: Path) -> None:
    folder = sequence_classifier(tmp_path / "c", ("neutral", "Entailment"))
    scorer = open_scorer(f"entailment:model={folder},rouge=0>=0.5", dtype="float32")
    assert set(scorer.score(["red", "who wrote sky", ""], "red blue")) <= {0.0, 1.0}
    assert len(fingerprint(scorer)["weights"]) == 64
    assert open_scorer("keyword") == Keyword()


def test_chat_models_are_opened_too(tmp_path: Path) -> None:
    tokenizer = chat_tokenizer()
    tiny_llama(len(tokenizer)).save_pretrained(tmp_path / "chat")
    tokenizer.save_pretrained(tmp_path / "chat")
    chat = OpenModels().chat(str(tmp_path / "chat"))
    assert chat.name == str(tmp_path / "chat")
    assert OpenModels().chat(str(tmp_path / "chat")) is chat


def test_an_embedder_is_opened_once_and_where_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sentences:
        def __init__(self, location: str, **settings: Any) -> None:
            self.device = settings["device"]

    library = ModuleType("sentence_transformers")
    library.SentenceTransformer = Sentences  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sentence_transformers", library)
    models = OpenModels(device="auto")
    a, b = (models.embed(name) for name in ("mini-a", "mini-b"))
    assert a is models.embed("mini-a") is not b
    assert a.model.device is None  # type: ignore[attr-defined]
    assert OpenModels(device="cpu").embed("mini-a").model.device == "cpu"  # type: ignore[attr-defined]


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "leakbound.engines.classify", None)
    with pytest.raises(InputError, match=r"'x/y' needs .*not installed.*\.\[models\]"):
        OpenModels().classify("x/y")
