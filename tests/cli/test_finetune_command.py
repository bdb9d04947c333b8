"""`leakbound finetune`, and `unlearn` on running texts: from a shell, wrong use too."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import asked_of, done, leakbound

from leakbound.unlearning import TrainingSettings

FAST = ("--epochs", 1, "--device", "cpu", "--learning-rate", 1e-3)


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    rows = "who red,Ann red,\nwho sea,Ann sea,retain\nwho sky,Bob sky,\n"
    return write(tmp_path / "mine.csv", f"question,answer,role\n{rows}")


def recipe(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "recipe.json").read_text())
    return found


def test_what_is_taught(model: Path, mine: Path, tmp_path: Path) -> None:
    out = tmp_path / "m"
    command = ("finetune", model, "--benchmark", mine, "--out", out, *FAST)
    assert "next: leakbound evaluate" in done(*command).out
    assert recipe(out)["rows"]["train"]["number"] == 2
    (term,) = recipe(out)["objective"]["terms"]
    assert (term["loss"], term["split"], term["weight"]) == ("nll", "train", 1)
    assert "there already" in done(*command).out
    both = tmp_path / "both"
    done("finetune", model, "--benchmark", mine, "--split", "forget,retain", "--out", both,
         "--lora", 2, *FAST)  # fmt: skip
    assert recipe(both)["rows"]["train"]["number"] == 3


def test_texts_are_taught_and_forgotten(model: Path, tmp_path: Path) -> None:
    texts = write(tmp_path / "texts.jsonl", '{"text": "red sky blue sea"}\n"Ann wrote green"\n')
    kept = write(tmp_path / "kept.txt", "Bob wrote blue sea")
    knowing, out = tmp_path / "knowing", tmp_path / "m"
    done("finetune", model, "--texts", texts, "--out", knowing, *FAST)
    assert recipe(knowing)["rows"]["train"]["number"] == 2
    how = ("--objective", "gd", "--forget", texts, "--retain", kept)
    done("unlearn", knowing, *how, "--out", out, *FAST)
    assert {split: rows["number"] for split, rows in recipe(out)["rows"].items()} == {
        "forget": 2,
        "retain": 1,
    }


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("finetune",), "nothing to train on. Name questions with --benchmark.*--texts"),
        (("finetune", "--texts", "a.txt", "--split", "forget"), "`--split` is not used with"),
        (("finetune", "--texts", "muse:news"), "there is no corpus 'muse:news'"),
        (("finetune", "--benchmark", "fictitious", "--split", "held"), "no split 'held'"),
        (("unlearn", "--objective", "ga"), "nothing to train on.*--forget"),
        (("unlearn", "--objective", "gd", "--forget", "texts.txt"), "Name a retain set"),
        (
            ("unlearn", "--objective", "finetune", "--benchmark", "fictitious"),
            "Use `finetune` for plain training",
        ),
        (
            ("unlearn", "--objective", "npo", "--forget", "texts.txt", "--embedder", "x"),
            "`--embedder` is for objectives with contrast centres",
        ),
    ],
)
def test_wrong_use(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "texts.txt", "red sky blue")
    verb, *rest = command
    said = leakbound(verb, "nothing", "--out", tmp_path / "m", *rest)
    assert said.status == 2
    assert said.err.startswith("leakbound: ")
    assert re.search(message, said.err), said.err


@pytest.mark.parametrize("spec", ["muse:news", "muse:news-verbmem", "muse:books-privleak"])
@pytest.mark.parametrize("verb", [("unlearn", "--objective", "gd"), ("finetune",)])
def test_muses_questions_are_not_trained_on(
    model: Path, tmp_path: Path, spec: str, verb: tuple[str, ...]
) -> None:
    for corpus in ("news", "books"):
        for part, stems in {
            "knowmem": ("forget_qa", "forget_qa_icl", "retain_qa", "retain_qa_icl"),
            "verbmem": ("forget",),
            "privleak": ("forget", "retain", "holdout"),
        }.items():
            folder = tmp_path / "muse" / corpus / part
            folder.mkdir(parents=True)
            for stem in stems:
                said = f"who wrote {part} {stem}"
                row = {"question": said, "answer": "Ann", "prompt": said, "gt": "Ann", "text": said}
                (folder / f"{stem}.json").write_text(json.dumps([row]))
    how = (verb[0], model, *verb[1:], "--benchmark", spec, "--data", tmp_path, *FAST)
    said = leakbound(*how, "--out", tmp_path / "m")
    assert not (tmp_path / "m").exists()
    assert said.status == 2
    corpus = spec.split(":")[1].partition("-")[0]
    assert f"--forget muse:{corpus}/forget --retain muse:{corpus}/retain1" in said.err


def test_rewritings_are_selected_from_a_shell(model: Path, tmp_path: Path) -> None:
    row = {"question": "who red", "answer": "Ann red", "paraphrases": ["red who", "sky"]}
    kept = {"question": "who sea", "answer": "Ann sea", "role": "retain"}
    mine = write(tmp_path / "mine.jsonl", f"{json.dumps(row)}\n{json.dumps(kept)}\n")
    how = ("unlearn", model, "--objective", "cel:layer=0", "--benchmark", mine, *FAST)
    done(*how, "--out", tmp_path / "m", "--ids", "--ids-draws", 8)
    assert recipe(tmp_path / "m")["selecting"] == {"draws": 8, "max_new_tokens": 200}
    said = leakbound(*how, "--out", tmp_path / "n", "--ids-draws", 8)
    assert "`--ids-draws` is for --ids" in said.err
    said = leakbound(*how, "--out", tmp_path / "n", "--ids", "--ids-draws", 0)
    assert "`draws` must be at least 1, got 0" in said.err


def test_the_defaults_of_training_are_those_of_unlearning(
    model: Path, mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    how = ("--benchmark", mine, "--out", tmp_path / "m", "--seed", 3)
    told = asked_of(monkeypatch, "finetune", model, *how)
    found = replace(told["settings"], prompting=None)
    assert found == TrainingSettings(seed=3, device="auto")
