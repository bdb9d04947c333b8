"""Wrong use and bad input: the thing, its value and the remedy are named; nothing is half-written.

Unless a test says otherwise the refusal comes before a model is opened, with exit status 2, and
leaves no run.json.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import SMALL, done, leakbound, refused

from flips import RUNS, Flipped, flips
from hostile import logs, models
from leakbound.engines import hf
from leakbound.engines.loading import LoadedModel, load_model
from leaky import rewrite
from tiny import WORDS


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--temperature", "abc"], ["--temperature", "'abc'", "a number or a percentage"]),
        (["--temperature", "0.12345678,0.12345679"], ["'T=0.123457'", "alike to six digits"]),
        (["--adaptive-mode", "two_pass"], ["two_pass", "Add --adaptive-temperature C"]),
        (["--confidence", "1"], ["confidence", "1.0", "Use 0.99"]),
        (["--confidence", "0.999999999995"], ["too near 1", "Use 0.9999999999798 or less"]),
        (["--scorer", "rogue-l-recall"], ["'rogue-l-recall'", "Did you mean 'rouge-l-recall'"]),
        (["--benchmark", "none.csv"], ["'none.csv'", "No such file", "Check the path"]),
        (["--data", "nowhere"], ["`data`", "nowhere", "a folder that exists"]),
        (["--like", "nowhere"], ["nowhere", "no run directory", "leakbound evaluate"]),
        (["--explore", "all"], ["--explore", "'all'", "exact", "hybrid", "auto"]),
        (["--budget", "9"], ["`budget` 9 has no meaning without exploring", "--explore"]),
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("no_model")
def test_options(arguments: Sequence[str], named: Sequence[str], tmp_path: Path) -> None:
    out = tmp_path / "run"
    how = ["--benchmark", "fictitious", "--limit", 2, *SMALL, "--out", out, *arguments]
    refused(leakbound("evaluate", "model", *how), *named)
    assert not (out / "run.json").exists()


@pytest.mark.usefixtures("no_model")
def test_what_must_be_said(tmp_path: Path) -> None:
    refused(leakbound("evaluate"), "Missing argument", "MODEL")
    refused(leakbound("evaluate", "model", "--out", tmp_path / "run"), "`--benchmark` is missing")
    refused(leakbound("evaluate", "model", "--benchmark", "fictitious"), "`--out` is missing")
    refused(leakbound("evaluates"), "No such command", "evaluate")
    refused(leakbound("report"), "Missing argument")
    refused(leakbound("plan"), "--epsilon 0.01, or --clean 0.02")
    for given in (["--epsilon", 0], ["--epsilon", "nan"], ["--clean", 1]):
        refused(leakbound("plan", *given), "strictly between 0 and 1", f"{float(given[1])!r}")
    refused(leakbound("plan", "--epsilon", 0.1, "--confidence", 1), "confidence", "1.0")
    refused(leakbound("plan", "--clean", "1%%"), "--clean", "0.02 or 2%, got '1%%'")


@pytest.mark.usefixtures("no_model")
@pytest.mark.parametrize(
    ("content", "named"),
    [(b"question,answer\nwho,Ann\n  ,Bob\n", "row 2"), (b"question\nJ\xf6rg\n", "not UTF-8"),
     (b"question,answer\nwho,Ann\nwhere,\n", "mine/0002")],
    ids=["blank", "latin", "no answer"],
)  # fmt: skip
def test_files_of_questions(content: bytes, named: str, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_bytes(content)
    how = ("--benchmark", tmp_path / "mine.csv", "--scorer", "rouge-l-recall")
    refused(leakbound("evaluate", "model", *how, "--out", tmp_path / "run"), named, "mine")
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("no_model")
def test_folders_that_cannot_hold_a_run(
    questions: Path, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    how = ("evaluate", "model", *SMALL, "--benchmark", questions, "--out")
    refused(leakbound(*how, file), "--out", str(file), "is a file")
    refused(leakbound(*how, file / "run"), str(file / "run"), "Not a directory", "another")
    refused(leakbound(*how, tmp_path), str(tmp_path), "other files", "Name an empty folder")
    before = (run / "run.json").read_bytes()
    other = leakbound(*how, run, "--benchmark", "fictitious")
    refused(other, str(run), "another command", "benchmark: name", "--out")
    monkeypatch.setattr("os.access", lambda path, mode: False)
    refused(leakbound(*how, tmp_path / "locked"), str(tmp_path / "locked"), "cannot write")
    assert (file.read_text(), (run / "run.json").read_bytes()) == ("mine", before)


def test_models_that_cannot_be_used(
    model: Path, finished: Path, questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the target or as the control: nothing is sampled before both are looked at.

    Nor is a model a control of itself, as it is, copied, or as its own finished run.
    """
    monkeypatch.delattr(hf, "Sampler")
    copy = Path(shutil.copytree(model, tmp_path / "copy"))
    broken = Path(shutil.copytree(model, tmp_path / "broken"))
    for file in broken.glob("tokenizer*"):
        file.unlink()
    how = ("--benchmark", questions, *SMALL, "--out", tmp_path / "run")
    missing = tmp_path / "missing"
    for bad, named in ((broken, "has no tokenizer"), (missing, "Check the path")):
        refused(leakbound("evaluate", bad, *how), str(bad), named)
        refused(leakbound("evaluate", model, *how, "--control", bad), str(bad), named)
    for same in (model, copy, finished):
        own = leakbound("evaluate", model, *how, "--control", same)
        refused(own, "is the model under evaluation")
    assert not [*(tmp_path / "run").glob("arms/*/completions/*")]
    monkeypatch.delattr(hf, "TransformersEngine")
    refused(leakbound("evaluate", model, *how, "--control", missing), "Check the path")


def broken_at(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on models load with a NaN in the embedding of a word, as a bad chip might."""

    def load(*args: Any, **settings: Any) -> LoadedModel:
        loaded = load_model(*args, **settings)
        with torch.no_grad():
            loaded.model.model.embed_tokens.weight[3 + WORDS.index(word)] = float("nan")
        return loaded

    monkeypatch.setattr(hf, "load_model", load)


def test_nan_logits_everywhere(
    model: Path, questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken_at("Answer:", monkeypatch)
    out = tmp_path / "run"
    result = leakbound("evaluate", model, "--benchmark", questions, "--out", out, *SMALL)
    assert (result.status, "2 of the 2 questions" in result.err) == (3, True)
    refused(leakbound("report", out), "none of its questions could be sampled")
    told = leakbound("bound", out, "--json")
    assert (told.status, told.json["estimates"], told.json["report"]) == (3, [], None)


def test_steps_out_of_order(run: Path, model: Path, questions: Path, tmp_path: Path) -> None:
    out = tmp_path / "drawn"
    done("sample", model, "--benchmark", questions, "--out", out, *SMALL)
    for command, named in (
        (("score", tmp_path), (str(tmp_path), "no run directory")),
        (("bound", run, "--scorer", "contains"), ("'contains'", "`leakbound score` first")),
        (("bound", run, "--confidence", 99), ("confidence", "99.0")),
        (("score", run, "--scorer", "none"), ("'none'", "There is")),
        (("bound", out), ("`leakbound score` first",)),
        (("report", out), (str(out), "`leakbound bound` first")),
    ):
        refused(leakbound(*command), *named)


def test_reports_that_cannot_be_made(run: Path, finished: Path, tmp_path: Path) -> None:
    twin = Path(shutil.copytree(run, tmp_path / "twin" / run.name))
    page = ("--out", tmp_path / "page.html")
    refused(leakbound("report", run, twin, *page), "same folder name", "Rename")
    refused(leakbound("report", run, finished), "`--out` is needed")
    refused(leakbound("report", run, "--out", tmp_path), "--out", str(tmp_path), "is a directory")


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
EACH = 3  # flips of every file, of the slow suite


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Flipped:
    return Flipped("plain", tmp_path_factory.mktemp("flips"))


@pytest.mark.parametrize("kind", FLIPPED)
def test_a_flipped_bit_is_named_or_changes_nothing(plain: Flipped, kind: str) -> None:
    flip = next(flip for flip in flips(plain.before, 1) if kind in flip[0])
    assert list(plain.wrong(*flip)) == []


def test_what_an_adversary_found(plain: Flipped) -> None:
    """Draws that never came, and questions: both lay beside what the digests were over."""
    for file, words, on in (
        ("arms/target/completions/part-00000.parquet", b"ARROW:schema", 900),
        ("prompts.parquet", b"ARROW:schema", 300),
        ("run.json", b'"decoding"', 3),
    ):
        assert list(plain.wrong(file, plain.before[file].index(words) + on, 0)) == []


def test_other_questions_under_the_same_ids_are_named_by_every_command(plain: Flipped) -> None:
    """A whole file of another benchmark, its own digest right: what leaked is not asked for."""
    file = plain.run / "prompts.parquet"
    try:
        rewrite(file, lambda rows: [row.update(answer="x", keywords=["x"]) for row in rows])
        for name, ask in plain.commands.items():
            said = ask()
            assert said.status in (2, 6), (name, said)
            assert "prompts.parquet` has other questions than the run began with" in said.words
            assert "Restore it from a copy" in said.words
    finally:
        file.write_bytes(plain.before["prompts.parquet"])


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_flipped_bits_of_every_file(name: str, tmp_path: Path) -> None:
    run = Flipped(name, tmp_path)
    wrong = [told for flip in flips(run.before, EACH, seed=1) for told in run.wrong(*flip)]
    assert wrong == []
