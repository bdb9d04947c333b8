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
from safetensors.torch import load_file, save_file

from leakbound.engines import hf
from leakbound.engines.loading import LoadedModel, load_model
from leakbound.scorers import SCORERS
from leakbound.store import Run
from leakbound.types import Prompt
from tiny import WORDS


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--temperature", "abc"], ["--temperature", "'abc'", "numbers separated by commas"]),
        (["--temperature", "0.5,,1"], ["--temperature", "'0.5,,1'"]),
        (["--temperature", "-1"], ["temperature", "-1.0", "0 (greedy) or a positive number"]),
        (["--temperature", "nan"], ["temperature", "nan"]),
        (["--temperature", "inf"], ["temperature", "inf"]),
        (["--temperature", "1,1"], ["'T=1'", "List each temperature"]),
        (["--temperature", "0.12345678,0.12345679"], ["'T=0.123457'", "alike to six digits"]),
        (["--top-p", "0"], ["top_p", "0.0", "(0, 1]"]),
        (["--top-p", "1.5"], ["top_p", "1.5", "(0, 1]"]),
        (["--top-k", "-1"], ["top_k", "-1", "0 to keep all"]),
        (["--top-k", "2.5"], ["--top-k", "'2.5'", "integer"]),
        (["--max-new-tokens", "0"], ["max_new_tokens", "0", "at least 1"]),
        (["--adaptive-temperature", "2"], ["adaptive_temperature", "2.0", "(0, 1]"]),
        (["--adaptive-mode", "two_pass"], ["two_pass", "Add --adaptive-temperature C"]),
        (["--adaptive-mode", "greedy"], ["--adaptive-mode", "'greedy'", "two_pass"]),
        (["-n", "0"], ["`n` must be at least 1", "got 0"]),
        (["-n", "-5"], ["`n` must be at least 1", "got -5"]),
        (["--limit", "0"], ["limit", "got 0", "Leave it out"]),
        (["--confidence", "1"], ["confidence", "1.0", "Use 0.99"]),
        (["--confidence", "0"], ["confidence", "0.0", "Use 0.99"]),
        (["--confidence", "nan"], ["confidence", "nan", "Use 0.99"]),
        (["--confidence", "0.999999999995"], ["too near 1", "Use 0.9999999999798 or less"]),
        (["--scorer", "rogue-l-recall"], ["'rogue-l-recall'", "Did you mean 'rouge-l-recall'"]),
        (["--scorer", "keyword>=2"], ["threshold", "2.0"]),
        (["--benchmark", "tofoo:forget10"], ["'tofoo'", "tofu"]),
        (["--benchmark", "none.csv"], ["'none.csv'", "No such file", "Check the path"]),
        (["--data", "nowhere"], ["`data`", "nowhere", "a folder that exists"]),
        (["--like", "nowhere"], ["nowhere", "no run directory", "leakbound evaluate"]),
        (["--dtype", "int8"], ["--dtype", "'int8'", "float32"]),
        (["--explore", "auto"], ["`n` 16 has no meaning with exploring", "Leave one out"]),
        (["--explore", "all"], ["--explore", "'all'", "exact", "hybrid", "auto"]),
        (["--budget", "9"], ["`budget` 9 has no meaning without exploring", "--explore"]),
        (["--budget", "0.5"], ["--budget", "'0.5'", "integer"]),
        (["--flag"], ["--flag", "No such option"]),
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


BAD_FILES = {
    "empty.csv": ("", "holds no row"),
    "header.csv": ("question,answer\n", "holds no row"),
    "ragged.csv": ("question,answer\nwho,Ann,and more\n", "row 1"),
    "blank.csv": ("question,answer\nwho,Ann\n  ,Bob\n", "row 2"),
    "twice.csv": ("id,question,answer\na,who,Ann\na,where,here\n", "'a'"),
    "no-answer.csv": ("question,answer\nwho,Ann\nwhere,\n", "no-answer/0002"),
    "nothing.csv": ("question,answer,role\nwho,Ann,retain\n", "role 'forget'"),
    "broken.jsonl": ('{"question": "who", "answer": "Ann"}\n{"question": \n', "row 2"),
    "latin.csv": ("question,answer\nwho,J\xf6rg\n", "not UTF-8"),
}


@pytest.mark.parametrize("name", BAD_FILES)
@pytest.mark.usefixtures("no_model")
def test_files_of_questions(name: str, tmp_path: Path) -> None:
    text, named = BAD_FILES[name]
    (tmp_path / name).write_bytes(text.encode("latin-1"))
    out = tmp_path / "run"
    how = ("--benchmark", tmp_path / name, "--scorer", "rouge-l-recall", "--out", out)
    refused(leakbound("evaluate", "model", *how), named, name.partition(".")[0])
    assert not out.exists()


@pytest.mark.usefixtures("no_model")
def test_folders_that_cannot_hold_a_run(
    questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    how = ("evaluate", "model", "--benchmark", questions, "--out")
    refused(leakbound(*how, file), "--out", str(file), "is a file")
    refused(leakbound(*how, file / "run"), str(file / "run"), "Not a directory", "another")
    refused(leakbound(*how, tmp_path), str(tmp_path), "other files", "Name an empty folder")
    monkeypatch.setattr("os.access", lambda path, mode: False)
    refused(leakbound(*how, tmp_path / "locked"), str(tmp_path / "locked"), "cannot write")
    assert file.read_text() == "mine"


@pytest.mark.usefixtures("no_model")
def test_another_commands_run(run: Path, tmp_path: Path) -> None:
    before = (run / "run.json").read_bytes()
    how = ("evaluate", "model", "--out", run, *SMALL, "--benchmark")
    refused(leakbound(*how, "fictitious"), str(run), "another command", "benchmark: name", "--out")
    assert (run / "run.json").read_bytes() == before


def test_another_plan_names_the_difference(run: Path, model: Path, control: Path) -> None:
    before = (run / "run.json").read_bytes()
    questions = Run.open(run).study.benchmark
    how = ("evaluate", model, "--benchmark", questions, "--out", run, *SMALL)
    refused(leakbound(*how, "-n", 17), "n = 16, fixed before", "says 17", "--out", "--until")
    refused(leakbound(*how, "--seed", 1), "seed: it has 0, this one says 1")
    refused(leakbound(*how, "--temperature", 0.5), "temperature: it has 1.0, this one says 0.5")
    other = ("evaluate", control, *how[2:])
    refused(leakbound(*other), "fingerprint: weights")
    assert (run / "run.json").read_bytes() == before


def broken_models(good: Path, folder: Path) -> dict[str, tuple[Path, str]]:
    """Models that cannot be used, and what a refusal says."""
    tensors = load_file(good / "model.safetensors")
    del tensors["model.norm.weight"]
    for name in ("no-tokenizer", "no-tensor"):
        shutil.copytree(good, folder / name)
    for file in (folder / "no-tokenizer").glob("tokenizer*"):
        file.unlink()
    save_file(tensors, folder / "no-tensor" / "model.safetensors", metadata={"format": "pt"})
    return {
        "missing": (folder / "missing", "Check the path"),
        "no-tokenizer": (folder / "no-tokenizer", "has no tokenizer"),
        "no-tensor": (folder / "no-tensor", "lacks tensors (1): model.norm.weight"),
    }


@pytest.mark.parametrize("name", ["missing", "no-tokenizer", "no-tensor"])
def test_models_that_cannot_be_used(
    name: str, model: Path, questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the target or as the control: nothing is sampled before both are looked at."""
    monkeypatch.delattr(hf, "Sampler")
    broken, named = broken_models(model, tmp_path)[name]
    how = ("--benchmark", questions, "--out", tmp_path / "run", *SMALL)
    refused(leakbound("evaluate", broken, *how), str(broken), named)
    refused(leakbound("evaluate", model, *how, "--control", broken), str(broken), named)
    assert not (tmp_path / "run" / "run.json").exists()
    assert not (tmp_path / "run" / "arms").exists()


def test_a_model_is_no_control_of_itself(
    model: Path, finished: Path, questions: Path, tmp_path: Path
) -> None:
    """Nor is a copy of it, nor its own finished run: no excess is made of one model."""
    copy = shutil.copytree(model, tmp_path / "retrained")
    how = ("--benchmark", questions, *SMALL)
    for control in (model, copy, finished):
        out = tmp_path / f"run-{Path(control).name}"
        result = leakbound("evaluate", model, *how, "--out", out, "--control", control)
        assert (result.status, "is the model under evaluation" in result.err) == (2, True)
        assert not list(out.glob("arms/*/completions/*"))


def test_a_control_that_is_not_there_is_refused_before_the_model_is_loaded(
    model: Path, questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(hf, "TransformersEngine")
    how = ("--benchmark", questions, "--out", tmp_path / "run", *SMALL)
    missing = tmp_path / "contrl"
    refused(
        leakbound("evaluate", model, *how, "--control", missing), str(missing), "Check the path"
    )


def test_a_question_longer_than_the_context(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(hf, "Sampler")
    file = tmp_path / "long.csv"
    file.write_text(f"question,answer\nwho,Ann\n{'who wrote ' * 80},Bob\n")
    how = ("--benchmark", file, "--out", tmp_path / "run", *SMALL)
    named = ("'long/0002'", "162 prompt tokens", "context of 128", "--max-new-tokens")
    refused(leakbound("evaluate", model, *how), *named)
    refused(leakbound("evaluate", model, *how, "--dry-run"), *named)
    assert not (tmp_path / "run" / "run.json").exists()


def test_an_unfinished_or_other_control_run(
    finished: Path, model: Path, tmp_path: Path, no_model: None
) -> None:
    questions = Run.open(finished).study.benchmark
    how = ("evaluate", model, "--out", tmp_path / "run", *SMALL, "--benchmark")
    beside = ("--control", finished)
    refused(leakbound(*how, "fictitious", *beside), str(finished), "other questions")
    cold = leakbound(*how, questions, *beside, "--temperature", 0.5)
    refused(cold, "'target'", "drawn under", "same options")
    half = Path(shutil.copytree(finished, tmp_path / "half"))
    next((half / "arms" / "target" / "completions").iterdir()).unlink()
    refused(leakbound(*how, questions, "--control", half), str(half), "not finished")
    assert not (tmp_path / "run" / "run.json").exists()


def broken_at(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on models load with a NaN in the embedding of a word, as a bad chip might."""

    def load(*args: Any, **settings: Any) -> LoadedModel:
        loaded = load_model(*args, **settings)
        with torch.no_grad():
            loaded.model.model.embed_tokens.weight[3 + WORDS.index(word)] = float("nan")
        return loaded

    monkeypatch.setattr(hf, "load_model", load)


def test_nan_logits_lose_their_question_alone_until_mended(
    untied: Path, questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tied, a row of NaN would be met by every question, in the head."""
    file = tmp_path / "mine.csv"
    file.write_text(questions.read_text() + "sea who,red,red\n")
    out = tmp_path / "run"
    command = ("evaluate", untied, "--benchmark", file, "--out", out, *SMALL, "--temperature", "1")
    with monkeypatch.context() as patched:
        broken_at("sea", patched)
        result = leakbound(*command)
    assert result.status == 3
    assert "'mine/0003'" in result.err
    assert "NaN or infinite after ''" in result.err
    assert "run the same command again" in result.err
    assert "incomplete" in result.out  # in place of statements about all questions
    of = {r.query_id for r in Run.open(out).estimates if r.arm == "target"}
    assert of <= {"mine/0001", "mine/0002"}
    again = leakbound("bound", out)
    assert (again.status, "'mine/0003'" in again.err) == (3, True)

    result = done(*command, "--json")
    (tmp_path / "clean").mkdir()
    clean = done(*command[:5], tmp_path / "clean", *command[6:], "--json")
    assert result.json["estimates"] == clean.json["estimates"]
    assert {r["query_id"] for r in result.json["estimates"]} >= {None, "mine/0003"}


def test_nan_logits_everywhere(
    model: Path, questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken_at("Answer:", monkeypatch)
    how = ("--benchmark", questions, "--out", tmp_path / "run", *SMALL)
    result = leakbound("evaluate", model, *how)
    assert result.status == 3
    assert "2 of the 2 questions" in result.err
    assert not Run.open(tmp_path / "run").estimates
    refused(leakbound("report", tmp_path / "run"), "none of its questions could be sampled")
    told = leakbound("bound", tmp_path / "run", "--json")
    assert (told.status, told.json["estimates"], told.json["report"]) == (3, [], None)


def test_scores_outside_the_range_name_the_prompt(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class TooHigh:
        name, binary = "too-high", False

        def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
            return [1.5 if isinstance(prompt, Prompt) and prompt.id.endswith("2") else 0.5] * len(
                texts
            )

    monkeypatch.setitem(SCORERS, "too-high", TooHigh)
    named = ("1.5", "'too-high'", "'mine/0002'", "Rescale")
    refused(leakbound("score", run, "--scorer", "too-high"), *named)
    assert not list(run.glob("arms/*/scores/too-high*"))
    refused(leakbound("bound", run, "--scorer", "too-high"), "no scores of 'too-high'")


def test_steps_out_of_order(run: Path, model: Path, questions: Path, tmp_path: Path) -> None:
    refused(leakbound("score", tmp_path), str(tmp_path), "no run directory")
    refused(
        leakbound("bound", run, "--scorer", "contains"), "'contains'", "`leakbound score` first"
    )
    refused(leakbound("bound", run, "--confidence", 99), "confidence", "99.0")
    refused(leakbound("score", run, "--scorer", "none"), "'none'", "There is")
    out = tmp_path / "drawn"
    done("sample", model, "--benchmark", questions, "--out", out, *SMALL)
    refused(leakbound("bound", out), "`leakbound score` first")
    refused(leakbound("report", out), str(out), "`leakbound bound` first")


def test_scores_of_other_completions_are_not_bounded(run: Path) -> None:
    arms = run / "arms" / "target"
    (file,) = (arms / "scores").glob("keyword*")
    other = run / "arms" / "greedy" / "scores" / file.name
    file.write_bytes(other.read_bytes())
    refused(
        leakbound("bound", run), "'target'", "completions it has now", "`leakbound score` first"
    )
    done("score", run)
    done("bound", run)


def test_a_damaged_part_is_set_aside_redone_and_told(
    finished: Path, run: Path, model: Path
) -> None:
    (part,) = (run / "arms" / "target" / "completions").iterdir()
    part.write_bytes(part.read_bytes()[:-50])
    questions = Run.open(run).study.benchmark
    result = done("evaluate", model, "--benchmark", questions, "--out", run, *SMALL)
    assert f"set aside as {part.name}.set-aside-1, to be redone" in result.err
    part.write_bytes(b"")
    result = done("evaluate", model, "--benchmark", questions, "--out", run, *SMALL)
    assert f"set aside as {part.name}.set-aside-2, to be redone" in result.err
    assert Run.open(run).estimates == Run.open(finished).estimates


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("run.json", b"{", "is not JSON"),
        ("run.json", b"[]", "was changed"),
        ("run.json", b'{"format": 99}', "format 99"),
        ("prompts.parquet", b"PAR1", "Restore it"),
        ("queries.parquet", b"", "Restore it"),
    ],
)
def test_a_damaged_run(run: Path, name: str, content: bytes, named: str) -> None:
    (run / name).write_bytes(content)
    refused(leakbound("report", run), str(run / name), named)


def test_reports_that_cannot_be_made(run: Path, finished: Path, tmp_path: Path) -> None:
    twin = Path(shutil.copytree(run, tmp_path / "twin" / run.name))
    page = ("--out", tmp_path / "page.html")
    refused(leakbound("report", run, twin, *page), "same folder name", "Rename")
    refused(leakbound("report", run, finished), "`--out` is needed")
    refused(leakbound("report", run, "--out", tmp_path), "--out", str(tmp_path), "is a directory")
