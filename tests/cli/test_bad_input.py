"""Broken or hostile models, logs and runs: the message names them, and nothing is half-written."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import Words, leakbound, refused

from flips import RUNS, Flipped, flips
from hostile import logs, models
from leakbound.engines import hf
from leakbound.engines.loading import LoadedModel, load_model
from leaky import rewrite
from tiny import WORDS


@pytest.fixture
def unsampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make sampling fail."""
    monkeypatch.delattr(hf, "Sampler")


@pytest.mark.usefixtures("unsampled")
def test_unusable_models(evaluating: Words, model: Path, finished: Path, tmp_path: Path) -> None:
    """Target and control are both opened before sampling; they must differ."""
    how = (*evaluating[2:], tmp_path / "run")
    copy = Path(shutil.copytree(model, tmp_path / "copy"))
    broken = Path(shutil.copytree(model, tmp_path / "broken"))
    for file in broken.glob("tokenizer*"):
        file.unlink()
    near = model.with_name("modle")
    for bad, named in ((broken, "has no tokenizer"), (near, f"Did you mean `{model}`?")):
        refused(leakbound("evaluate", bad, *how), str(bad), named)
    for bad, named in (
        (broken, "has no tokenizer"),
        (tmp_path / "missing", "Check the path"),
        (copy, "is the model under evaluation"),
        (finished, "is the model under evaluation"),
    ):
        refused(leakbound("evaluate", model, *how, "--control", bad), named)
    refused(leakbound("evaluate", model, *how, "--engine", "vlm"), "Did you mean 'vllm'?")
    half = ("--prove", 60, "--dtype", "bfloat16")
    refused(leakbound("evaluate", model, *how, *half), "half precision", "float32")
    assert not [*(tmp_path / "run").glob("arms/*/completions/*")]


def test_nan_logits(evaluating: Words, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A NaN in the embedding of a word, as a faulty chip might leave it."""

    def load(*args: Any, **settings: Any) -> LoadedModel:
        loaded = load_model(*args, **settings)
        with torch.no_grad():
            loaded.model.model.embed_tokens.weight[3 + WORDS.index("Answer:")] = float("nan")
        return loaded

    monkeypatch.setattr(hf, "load_model", load)
    out = tmp_path / "run"
    result = leakbound(*evaluating, out)
    assert (result.status, "2 of the 2 questions" in result.err) == (3, True)
    refused(leakbound("report", out), "none of its questions could be sampled")
    seen = leakbound("bound", out, "--json")
    assert (seen.status, seen.json["estimates"], seen.json["report"]) == (3, [], None)


QUICK = ("10^9 layers", "an end token that is text", "generation settings cut short")


@pytest.mark.parametrize("name", logs.LOGS)
def test_a_hostile_log_is_refused_by_name_and_makes_no_run(name: str, tmp_path: Path) -> None:
    kind, why = logs.outcome(name, tmp_path)
    assert kind == ("same" if name in logs.TAKEN else "refused"), why


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in models.MODELS]
)
def test_a_hostile_model_is_refused_by_name_and_runs_no_code(name: str, tmp_path: Path) -> None:
    kind, why = models.outcome(name, tmp_path)
    assert kind == ("same" if name in models.TAKEN else "refused"), why


FLIPPED = ("run.json", "target/completions", "estimates.parquet")
EACH = 3  # flips per file; the slow suite flips everything


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Flipped:
    return Flipped("plain", tmp_path_factory.mktemp("flips"))


@pytest.mark.parametrize("kind", FLIPPED)
def test_a_flipped_bit_is_named_or_changes_nothing(plain: Flipped, kind: str) -> None:
    flip = next(flip for flip in flips(plain.before, 1) if kind in flip[0])
    assert list(plain.wrong(*flip)) == []


def test_attacks_of_an_adversary(plain: Flipped) -> None:
    """Missing draws and questions, which earlier digests did not cover."""
    for file, words, on in (
        ("arms/target/completions/part-00000.parquet", b"ARROW:schema", 900),
        ("prompts.parquet", b"ARROW:schema", 300),
        ("run.json", b'"decoding"', 3),
    ):
        assert list(plain.wrong(file, plain.before[file].index(words) + on, 0)) == []


def test_other_questions_with_the_same_ids_are_named(plain: Flipped) -> None:
    """Every command names a file of another benchmark with a valid digest."""
    file = plain.run / "prompts.parquet"
    try:
        rewrite(file, lambda rows: [row.update(answer="x", keywords=["x"]) for row in rows])
        for name, ask in plain.commands.items():
            got = ask()
            assert got.status in (2, 6), (name, got)
            assert "prompts.parquet` does not have the run's original questions" in got.words
            assert "Restore it from a copy" in got.words
    finally:
        file.write_bytes(plain.before["prompts.parquet"])


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_flipped_bits_of_every_file(name: str, tmp_path: Path) -> None:
    run = Flipped(name, tmp_path)
    wrong = [seen for flip in flips(run.before, EACH, seed=1) for seen in run.wrong(*flip)]
    assert wrong == []
