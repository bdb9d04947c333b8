"""Verifying a certificate whose scores a model gave."""

from __future__ import annotations

from pathlib import Path

import pytest

from fake_models import FakeModels, WordClassifier
from leakbound.certificate import certify, verification, verify
from leakbound.evaluation.scoring import score as scoring
from leaky import SECRET, leaky_run


def test_the_scorers_model_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fake_models.HARM", tuple(SECRET.split()))
    monkeypatch.setattr(scoring, "OpenModels", lambda **loading: FakeModels())
    run = leaky_run(tmp_path / "r", scorers=["classifier:harm>=0.5"])
    certify(run, max_leak=0.5)
    file = run.path / "certificate.json"
    told: list[object] = []

    def found(classifier: WordClassifier) -> dict[str, str]:
        models = FakeModels(classifier=classifier)
        monkeypatch.setattr(
            verification, "OpenModels", lambda **loading: (told.append(loading), models)[1]
        )
        checks = verify(file, run.path, loading={"device": "cpu"}).checks
        return {check.name: check.says for check in checks if check.status == "differs"}

    same = WordClassifier()
    assert found(same) == {}
    assert same.batches
    assert told == [{"device": "cpu", "servers": frozenset()}]
    other = found(WordClassifier(weights="w2"))
    assert other.keys() == {"scores"}
    assert "its weights differ" in other["scores"]
