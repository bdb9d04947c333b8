"""`leakbound unlearn` and `finetune`: the trained models, and refusals."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import arguments_of, done, leakbound, refused

from leakbound.engines import loading
from leakbound.engines.loading import load_model
from leakbound.unlearning import Adapters, ModelAnswers, TrainingSettings, Watch, Weights
from leakbound.unlearning.rows import rows_of
from leakbound.unlearning.settings import MADE_UP
from tiny import BOTH_KINDS, tiny_model_folder

ROWS = [
    {"question": "who wrote red", "answer": "Ann", "role": "forget"},
    {"question": "who wrote blue", "answer": "Bob sea", "role": "forget"},
    {"question": "who wrote sky", "answer": "Ann sky", "role": "retain"},
]
WORDS = ["red who", "red wrote who", "wrote red", "sea sea sea", "Bob Ann sky"]
ONCE = ("--epochs", 1, "--warmup-ratio", 0, "--device", "cpu")


@pytest.fixture(scope="module")
def model(embeddings: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model_folder(tmp_path_factory.mktemp("model") / "model")


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("facts") / "facts.jsonl", *ROWS)


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@BOTH_KINDS
@pytest.mark.slow
def test_a_model_that_evaluate_can_read(model: Path, facts: Path, tmp_path: Path) -> None:
    out = tmp_path / "m"
    command = ("unlearn", model, "--objective", "npo+entropy", "--benchmark", facts, "--out", out)
    command += ("--epochs", 2, "--batch-size", 1, "--learning-rate", 0.001, "--device", "cpu")
    shown = done(*command, "--evaluate-every", 2)
    assert f"{out}: 4 steps" in shown.out
    assert "training: 4/4 steps" in shown.err
    first, *_, last = shown.err.splitlines()
    assert (first, last) == ("loading model: …", "saving m: …")  # the last line came immediately
    files = {path.name for path in out.iterdir()}
    assert {"model.safetensors", "recipe.json", "training.jsonl", "README.md"} <= files
    lines = [json.loads(line) for line in (out / "training.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "ED forget" in line] == [0, 2, 4]
    again = done(*command, "--evaluate-every", 2, "--json").json
    assert (again["reused"], again["steps"]) == (True, 4)
    assert again["objective"] == [lines[1]["loss"], lines[-2]["loss"]]
    small = ("-n", 8, "--max-new-tokens", 4)
    done("evaluate", out, "--benchmark", facts, "--out", tmp_path / "run", *small)


def test_every_option_arrives(
    model: Path, facts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = arguments_of(
        monkeypatch, "unlearn", model, "--objective", "npo:beta=0.5", "--benchmark", facts,
        "--out", tmp_path / "m", "--epochs", 3, "--learning-rate", 0.5, "--batch-size", 7,
        "--accumulation", 2, "--schedule", "linear", "--warmup-ratio", 0.25,
        "--weight-decay", 0.125, "--max-grad-norm", 2, "--max-length", 99, "--bf16",
        "--checkpointing", "--dtype", "bfloat16", "--device", "cpu", "--seed", 5,
        "--trust-remote-code", "--modules", "down_proj, q_proj", "--layers", "0-2,5",
        "--lora", 4, "--lora-alpha", 8, "--lora-dropout", 0.5, "--evaluate-every", 9,
        "--checkpoint-minutes", 3, "--report-to", "wandb,mlflow", "--limit", 1,
        "--system", "be", "--prompt-template", "Q {question}",
    )  # fmt: skip
    adapters = Adapters(rank=4, alpha=8.0, dropout=0.5)
    assert replace(seen["settings"], prompting=None) == TrainingSettings(
        epochs=3, learning_rate=0.5, batch_size=7, accumulation=2, schedule="linear",
        warmup_ratio=0.25, weight_decay=0.125, max_grad_norm=2.0, max_length=99, bf16=True,
        checkpointing=True, dtype="bfloat16", device="cpu", seed=5, trust_remote_code=True,
        weights=Weights(modules=("down_proj", "q_proj"), layers=(0, 1, 2, 5), adapters=adapters),
    )  # fmt: skip
    watch = Watch(evaluate_every=9, checkpoint_minutes=3.0, report_to=("wandb", "mlflow"))
    assert replace(seen["watch"], max_new_tokens=watch.max_new_tokens) == watch
    assert seen["given"][0] == str(model)
    assert seen["given"][1].name == "npo:beta=0.5"
    assert [row.question for row in seen["forget"].prompts] == ["who wrote red"]
    assert [row.question for row in seen["retain"].split("retain")] == ["who wrote sky"]
    wanted = seen["settings"].prompting
    assert (wanted.template, wanted.system, wanted.chat) == ("Q {question}", "be", False)


def test_what_is_trained_on_and_how_by_default(
    model: Path, facts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = write(tmp_path / "texts.jsonl", {"text": "red sky blue sea"}, {"text": "Ann wrote"})
    kept = write(tmp_path / "kept.jsonl", {"text": "Bob wrote blue sea"})
    given = ("--benchmark", facts)
    for command, forget, retain in (
        (("unlearn", *given, "--objective", "ga"), 2, True),  # the benchmark has both sets
        (("unlearn", "--forget", texts, "--retain", kept, "--objective", "gd"), 2, 1),
        (("finetune", *given), 2, 0),
        (("finetune", *given, "--split", "forget,retain"), 3, 0),
        (("finetune", "--texts", texts), 2, 0),
    ):
        verb, *how = command
        seen = arguments_of(monkeypatch, str(verb), model, *how, "--out", tmp_path / "m")
        rows, kept = seen.get("forget") or seen["given"][1], seen.get("retain") or ()
        assert (len(rows_of(rows)), kept is rows or len(kept)) == (forget, retain), command
        assert replace(seen["settings"], prompting=None) == TrainingSettings(device="auto")
        assert replace(seen["watch"], max_new_tokens=Watch().max_new_tokens) == Watch()
        assert seen["settings"].prompting.chat is None


def test_a_preset_has_the_settings_of_its_authors(
    model: Path, facts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    how = ("unlearn", model, "--benchmark", facts, "--out", tmp_path / "m", "--objective")
    seen = arguments_of(monkeypatch, *how, "npo:openunlearning", "--epochs", 3)["settings"]
    assert (seen.epochs, seen.batch_size, seen.accumulation) == (3, 8, 4)
    assert (seen.schedule, seen.warmup_ratio, seen.inventing) == ("linear", 0.1, MADE_UP)
    drawn = ("--draws", 2, "--max-new-tokens", 9)
    seen = arguments_of(monkeypatch, *how, "altpo:openunlearning", *drawn)["settings"]
    assert (seen.epochs, seen.inventing) == (2, ModelAnswers(draws=2, max_new_tokens=9))


def test_a_dry_run_writes_nothing(model: Path, facts: Path, tmp_path: Path) -> None:
    out = tmp_path / "m"
    command = ("unlearn", model, "--objective", "npo", "--benchmark", facts, "--out", out)
    command = (*command, "--epochs", 3, "--batch-size", 1, "--accumulation", 2, "--device", "cpu")
    steps, memory = done(*command, "--dry-run", "--json").json["notes"]
    counted = "3 steps, 1 of them warm-up, from 6 forward passes, 2 per step"
    assert steps == f"2 forget rows, 1 retain rows; {counted}"
    every = sum(p.nbytes for p in load_model(str(model)).model.parameters())
    assert f"{math.ceil(4 * every / 1e6)} MB" in memory  # weights, gradients and two moments
    assert steps in done(*command, "--dry-run", "--lora", 2).out
    refused(leakbound(*command, "--max-length", 5, "--dry-run"), "tokens, but the limit is 5")
    assert not [*tmp_path.iterdir()]
    assert "next: leakbound evaluate" in done(*command).out
    assert "nothing to do" in done(*command).out
    assert done(*command, "--dry-run", "--json").json["reused"]
    refused(leakbound(*command, "--seed", 1, "--dry-run"), "than this command's: settings")


def test_missing_libraries_are_named_before_weights_are_read(
    model: Path, facts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(loading, "AutoModelForCausalLM")
    file = write(tmp_path / "r.jsonl", {"question": "who wrote red", "rewritings": WORDS})
    command = ("unlearn", model, "--objective", "cel:layer=0", "--benchmark", facts, *ONCE)
    for library, options, extra in (
        ("sklearn", ("--rewritings", file), "centres"),
        ("sentence_transformers", ("--embedder", "mini"), "embed"),
    ):
        monkeypatch.setitem(sys.modules, library, None)
        shown = leakbound(*command, *options, "--out", tmp_path / "m")
        refused(shown, f"pip install '.[{extra}]'")


def test_rewritings_of_a_file(
    model: Path, facts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file may have rows beyond the limit."""
    red, blue = ({"question": f"who wrote {word}"} for word in ("red", "blue"))
    others = (red | {"rewritings": WORDS}, blue | {"rewriting": "blue who"})
    command = (model, "--objective", "cel:layer=0", "--benchmark", facts, "--out", tmp_path / "m")
    command += ("--rewritings", write(tmp_path / "r.jsonl", *others))
    for number, more in ((2, ()), (1, ("--limit", 1))):
        given = arguments_of(monkeypatch, "unlearn", *command, *more)["forget"].prompts
        assert [row.paraphrases for row in given] == [(*WORDS,), ("blue who",)][:number]
