"""`leakbound unlearn`: a model in, a model out, and what it says of wrong use."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from commands import asked_of, done, leakbound

from leakbound.engines import loading
from leakbound.unlearning import Adapters, Sampling, TrainingSettings, Watch, Weights
from tiny import BOTH_KINDS, tiny_model_folder

ROWS = [
    {"question": "who wrote red", "answer": "Ann", "role": "forget"},
    {"question": "who wrote blue", "answer": "Bob sea", "role": "forget"},
    {"question": "who wrote sky", "answer": "Ann sky", "role": "retain"},
]
FAST = ("--epochs", 2, "--batch-size", 1, "--learning-rate", 0.001, "--device", "cpu")


@pytest.fixture(scope="module")
def model(embeddings: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model_folder(tmp_path_factory.mktemp("model") / "model")


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("facts") / "facts.jsonl", ROWS)


def write(path: Path, rows: list[dict[str, str]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@BOTH_KINDS
@pytest.mark.slow
def test_a_model_that_evaluate_can_read(model: Path, facts: Path, tmp_path: Path) -> None:
    out = tmp_path / "m"
    command = ("unlearn", model, "--objective", "npo+entropy", "--benchmark", facts, "--out", out)
    said = done(*command, *FAST, "--evaluate-every", 2)
    assert f"{out}: 4 steps" in said.out
    assert "training: 4/4 steps" in said.err
    first, *_, last = said.err.splitlines()
    assert (first, last) == ("loading model: …", "saving m: …")  # which took no time
    files = {path.name for path in out.iterdir()}
    assert {"model.safetensors", "recipe.json", "training.jsonl", "README.md"} <= files
    lines = [json.loads(line) for line in (out / "training.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "ED forget" in line] == [0, 2, 4]
    again = done(*command, *FAST, "--evaluate-every", 2, "--json").json
    assert again["reused"]
    assert again["steps"] == 4
    assert again["objective"] == [lines[1]["loss"], lines[-2]["loss"]]
    small = ("-n", 8, "--max-new-tokens", 4)
    done("evaluate", out, "--benchmark", facts, "--out", tmp_path / "run", *small)


def test_every_option_arrives(
    model: Path, facts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = asked_of(
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
    assert replace(told["settings"], prompting=None) == TrainingSettings(
        epochs=3, learning_rate=0.5, batch_size=7, accumulation=2, schedule="linear",
        warmup_ratio=0.25, weight_decay=0.125, max_grad_norm=2.0, max_length=99, bf16=True,
        checkpointing=True, dtype="bfloat16", device="cpu", seed=5, trust_remote_code=True,
        weights=Weights(
            modules=("down_proj", "q_proj"),
            layers=(0, 1, 2, 5),
            adapters=Adapters(rank=4, alpha=8.0, dropout=0.5),
        ),
    )  # fmt: skip
    assert told["watch"] == Watch(
        evaluate_every=9,
        checkpoint_minutes=3.0,
        report_to=("wandb", "mlflow"),
        max_new_tokens=told["watch"].max_new_tokens,
    )
    assert told["given"][0] == str(model)
    assert told["given"][1].name == "npo:beta=0.5"
    assert [row.question for row in told["forget"]] == ["who wrote red"]
    assert [row.question for row in told["retain"]] == ["who wrote sky"]
    assert told["settings"].prompting.template == "Q {question}"
    assert (told["settings"].prompting.system, told["settings"].prompting.chat) == ("be", False)


@pytest.mark.parametrize(
    ("benchmark", "options", "expected"),
    [
        ("fictitious", (), Sampling(scorer="keyword:require=all", max_new_tokens=48)),
        (
            "fictitious",
            ("--draws", 32, "--scorer", "exact", "--max-new-tokens", 9),
            Sampling(draws=32, scorer="exact", max_new_tokens=9),
        ),
    ],
)
def test_own_answers_are_drawn_as_said_or_as_the_benchmark_does(
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    benchmark: str,
    options: tuple[object, ...],
    expected: Sampling,
) -> None:
    out, objective = tmp_path / "m", "npo+leakmin:retain=0"
    command = (model, "--objective", objective, "--benchmark", benchmark, "--out", out)
    told = asked_of(monkeypatch, "unlearn", *command, *options)
    assert told["settings"].sampling == expected


def test_leak_minimisation_from_a_shell(model: Path, facts: Path, tmp_path: Path) -> None:
    out = tmp_path / "m"
    command = ("unlearn", model, "--objective", "leakmin", "--benchmark", facts, "--out", out)
    done(*command, *FAST, "--draws", 4, "--max-new-tokens", 3, "--scorer", "rouge-l-f1")
    lines = [json.loads(line) for line in (out / "training.jsonl").read_text().splitlines()]
    assert all({"leakage forget", "silent forget"} <= set(line) for line in lines)
    assert "4 a prompt, of at most 3 tokens, scored by `rouge-l-f1`" in (
        (out / "README.md").read_text()
    )


def test_defaults_are_those_of_the_paper(
    model: Path, facts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    how = ("--objective", "ga", "--benchmark", facts, "--out", tmp_path)
    told = asked_of(monkeypatch, "unlearn", model, *how)
    assert replace(told["settings"], prompting=None) == TrainingSettings(device="auto")
    assert told["watch"] == Watch(max_new_tokens=told["watch"].max_new_tokens)
    assert told["retain"] == ()  # gradient ascent keeps nothing
    assert told["settings"].prompting.chat is None


@pytest.mark.parametrize(
    ("objective", "options", "message"),
    [
        ("nop", (), "unknown objective 'nop'. Did you mean 'npo'"),
        ("npo:gamma=1", (), "gamma"),
        ("finetune", (), "Use `finetune`"),
        ("dpo", ("--alternates", "no-such.txt"), "cannot read 'no-such.txt'"),
        ("npo", ("--modules", "down_prj"), "no module 'down_prj'. Did you mean 'down_proj'"),
        ("npo", ("--layers", "1-2"), "no layer 2"),
        ("rmu:layer=7", (), "no layer 7"),
        ("npo", ("--layers", "x"), "'x' is no layer"),
        ("npo", ("--lora-alpha", 8), "`--lora-alpha` needs --lora"),
        ("npo", ("--lora", 0), "`adapters.rank` must be at least 1, got 0"),
        ("npo", ("--epochs", 0), "`epochs` must be at least 1, got 0"),
        ("npo", ("--learning-rate", "nan"), "`learning_rate` must be a positive number"),
        ("npo", ("--evaluate-every", 0), "`evaluate_every` must be at least 1"),
        ("npo", ("--report-to", "wandbb"), "no tracker 'wandbb'"),
        ("npo", ("--draws", 8), "`--draws` is for objectives that draw from the model, and 'npo'"),
        ("npo", ("--max-new-tokens", 8), "`--max-new-tokens` is for objectives that draw"),
        ("leakmin", ("--draws", 1), "`draws` must be at least 2, got 1"),
        ("leakmin", ("--scorer", "keywrd"), "unknown scorer 'keywrd'. Did you mean 'keyword'"),
        ("leakmin", ("--scorer", "keyword"), "needs keywords"),
    ],
)
def test_wrong_use_is_told_before_weights_are_read(
    model: Path,
    facts: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    objective: str,
    options: tuple[object, ...],
    message: str,
) -> None:
    monkeypatch.delattr(loading, "AutoModelForCausalLM")
    out = tmp_path / "m"
    said = leakbound(
        "unlearn", model, "--objective", objective, "--benchmark", facts, "--out", out, *options
    )
    assert said.status == 2
    assert message in said.err
    assert list(tmp_path.iterdir()) == []


def test_rows_on_both_sides_and_none_to_retain(model: Path, tmp_path: Path) -> None:
    both = write(tmp_path / "both.jsonl", [ROWS[0], {**ROWS[0], "role": "retain"}])
    none = write(tmp_path / "none.jsonl", ROWS[:2])
    for file, message in ((both, "in both forget and retain"), (none, "no split 'retain'")):
        out = tmp_path / "m"
        said = leakbound("unlearn", model, "--objective", "npo", "--benchmark", file, "--out", out)
        assert said.status == 2
        assert message in said.err


def test_an_explosion_ends_with_status_three(model: Path, facts: Path, tmp_path: Path) -> None:
    out = tmp_path / "m"
    command = ("unlearn", model, "--objective", "ga", "--benchmark", facts, "--out", out)
    wild = ("--epochs", 5, "--batch-size", 2, "--learning-rate", 1e36, "--warmup-ratio", 0)
    said = leakbound(*command, *wild, "--device", "cpu", "--checkpoint-minutes", 0)
    assert said.status == 3
    assert "last good checkpoint" in said.err
    assert not out.exists()
    other = leakbound(*command, *FAST)
    assert other.status == 2
    assert "unfinished training with other settings" in other.err


def test_an_objective_from_a_file(model: Path, facts: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    npo = "{loss: npo, split: forget, settings: {beta: 0.1}}"
    file.write_text(f"terms:\n- {npo}\n- {{loss: nll, split: retain}}\n")
    out = tmp_path / "m"
    done("unlearn", model, "--objective", file, "--benchmark", facts, "--out", out, *FAST)
    named = ("unlearn", model, "--objective", "npo", "--benchmark", facts, "--out", out)
    assert done(*named, *FAST, "--json").json["reused"]  # the same sum
