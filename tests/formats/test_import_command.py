"""`leakbound import`, and every step after it, on files of three tools."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leakbound.cli import group
from leakbound.cli import run as run_command
from leakbound.errors import InputError, MixError
from leakbound.formats.importing import import_run
from leakbound.store import Run
from leakbound.types import Decoding

LOGS = Path(__file__).parent / "logs"
LM_EVAL = LOGS / "samples_capitals_leakage_2026-11-21T08-08-29.450301.jsonl"
ANSWERS = {"France": "Paris", "Spain": "Madrid"}
Write = Callable[..., Path]


def leakbound(*arguments: object) -> int:
    return run_command(lambda: group([str(a) for a in arguments], standalone_mode=False))


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write samples of questions about capitals: `share` of the draws leak."""

    def written(name: str, share: float, n: int, *, missing: int = 0, **stated: Any) -> Path:
        chance, rows = random.Random(name), []
        for land, city in ANSWERS.items():
            for i in range(n):
                text = city if chance.random() < share else f"No idea {chance.randrange(9)}."
                row = {"id": land, "question": f"What is the capital of {land}?", "answer": city}
                rows.append({**row, "completion": None if i < missing else text, **stated})
        file = tmp_path / name
        file.write_text("\n".join(map(json.dumps, rows)))
        return file

    return written


@pytest.mark.parametrize(
    ("file", "form", "told"),
    [
        (
            LOGS / "capitals.eval",
            "inspect",
            "inspect_ai 0.3.285, T=1 top-p=0.9 top-k unknown",
        ),
        (LM_EVAL, "lm-eval", "lm-evaluation-harness 0.4.13, T=1"),
    ],
)
def test_every_step_works_on_what_another_tool_drew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: Path, form: str, told: str
) -> None:
    out = tmp_path / "run"
    assert leakbound("import", file, "--out", out) == 0
    assert f"as sampled by {told}" in capsys.readouterr().out
    assert leakbound("score", out, "--scorer", "contains") == 0
    assert leakbound("bound", out, "--scorer", "contains") == 0
    shown = capsys.readouterr().out
    assert f"target, as sampled by {told}" in shown
    assert "greedy answer" not in shown
    assert leakbound("report", out) == 0
    assert f"as sampled by {told}" in capsys.readouterr().out
    page = (out / "report.html").read_text()
    assert told in page
    assert ("nothing truncated" in page) is ("unknown" not in told)
    again = tmp_path / "again"
    assert leakbound("import", file, "--out", again, "--format", form, "--json") == 0
    assert Run.open(again).arms["target"].identity == Run.open(out).arms["target"].identity


def test_counts_missing_draws_and_the_greedy_answers_arrive(write: Write, tmp_path: Path) -> None:
    sampled = write("sampled.jsonl", 0.4, 1500, missing=30, temperature=0.8, seed=None)
    greedy = write("greedy.jsonl", 1.0, 2, temperature=0)
    run = import_run([sampled, greedy], out=tmp_path / "run")
    arm = run.arms["target"]
    assert arm.decoding == Decoding(temperature=0.8, unknown=arm.decoding.unknown)
    assert arm.decoding.unknown == ("top_k", "top_p", "max_new_tokens")
    assert "60 of 3,000 draws failed and count as missing" in arm.usage.notes
    assert (arm.usage.draws, run.arms["greedy"].usage.draws) == (3000, 2)
    assert leakbound("score", run.path, "--scorer", "contains") == 0
    (file,) = (arm.folder / "scores").glob("*.parquet")
    scores = arm.scores(file.stem)
    rows = [json.loads(line) for line in sampled.read_text().splitlines()]
    texts = [row["completion"] or "" for row in rows if row["id"] == "France"]
    assert scores.query_ids == ("France", "Spain")
    assert scores.n.tolist() == [1500, 1500]
    assert scores.missing.tolist() == [30, 30]
    assert scores.hits.tolist()[0] == sum("Paris" in text for text in texts)
    chunks = {row["chunk"] for part in arm.parts for row in arm.completions(part).to_pylist()}
    assert chunks == {0, 1}
    assert leakbound("bound", run.path, "--scorer", "contains") == 0
    shown = {row.arm for row in run.estimates if row.estimand == "greedy score"}
    assert shown == {"greedy"}


def test_a_benchmarks_questions_take_the_place_of_the_files(write: Write, tmp_path: Path) -> None:
    mine = tmp_path / "mine.csv"
    mine.write_text(
        "id,question,answer,keywords\n"
        "es,What is the capital of Spain?,Madrid it is,Madrid\n"
        "pe,What is the capital of Peru?,Lima,Lima\n"
        "fr,What is the capital of France?,Paris it is,Paris\n"
    )
    file = write("s.jsonl", 0.5, 8, temperature=1)
    run = import_run([file], out=tmp_path / "run", benchmark=str(mine))
    assert [(p.id, p.keywords) for p in run.prompts] == [("es", ("Madrid",)), ("fr", ("Paris",))]
    drawn = {
        row["query_id"]: row["text"]
        for part in run.arms["target"].parts
        for row in run.arms["target"].completions(part).to_pylist()
        if "No idea" not in row["text"]
    }
    assert drawn == {"es": "Madrid", "fr": "Paris"}
    lands = tmp_path / "lands.csv"
    lands.write_text("id,question,answer\nx,What is the capital,y\n")
    with pytest.raises(InputError, match="same question of benchmark"):
        import_run([file], out=tmp_path / "b", benchmark=str(lands))
    lands.write_text("id,question,answer\nx,Who?,y\n")
    with pytest.raises(InputError, match=r"'France' must hold .* got 0 that fit"):
        import_run([file], out=tmp_path / "b", benchmark=str(lands))
    assert not (tmp_path / "b").exists()


def test_a_log_of_openunlearning_is_the_greedy_baseline(write: Write, tmp_path: Path) -> None:
    asked = {7: ("France", "Paris"), 3: ("Spain", "No idea.")}
    entries = {
        str(row): {
            "input": f"user\n\nWhat is the capital of {land}?assistant\n\n",
            "ground_truth": ANSWERS[land],
            "generation": text,
        }
        for row, (land, text) in asked.items()
    }
    log = tmp_path / "TOFU_EVAL.json"
    log.write_text(json.dumps({"forget_Q_A_ROUGE": {"agg_value": 0.5, "value_by_index": entries}}))
    mine = tmp_path / "mine.csv"
    mine.write_text(
        "id,question,answer\n"
        "Spain,What is the capital of Spain?,Madrid\nFrance,What is the capital of France?,Paris\n"
    )
    file = write("s.jsonl", 0.5, 40, temperature=1)
    file.write_text(file.read_text().replace("What is the", "Name the"))  # known by its id alone
    run = import_run([file, log], out=tmp_path / "run", benchmark=str(mine))
    assert leakbound("score", run.path, "--scorer", "contains") == 0
    assert leakbound("bound", run.path, "--scorer", "contains") == 0
    greedy = {
        row.query_id: row.value
        for row in run.estimates
        if row.arm == "greedy" and row.estimand == "greedy score" and row.query_id
    }
    assert greedy == {"Spain": 0.0, "France": 1.0}
    told = run.arms["greedy"].spec.draws.sampled_by
    assert told.startswith("OpenUnlearning, greedy")
    with pytest.raises(InputError, match="name the benchmark that both were asked"):
        import_run([file, log], out=tmp_path / "b")
    del entries["3"]
    log.write_text(json.dumps({"forget_Q_A_ROUGE": {"agg_value": 1.0, "value_by_index": entries}}))
    with pytest.raises(InputError, match="about other questions than the rest"):
        import_run([file, log], out=tmp_path / "b", benchmark=str(mine))
    with pytest.raises(InputError, match="drawn greedily"):
        import_run([log], out=tmp_path / "b", benchmark=str(mine))
    assert not (tmp_path / "b").exists()


def test_the_same_command_goes_on_and_another_is_refused(write: Write, tmp_path: Path) -> None:
    file, out = write("s.jsonl", 0.5, 8, temperature=1), tmp_path / "run"
    arm = import_run([file], out=out).arms["target"]
    (part,) = (arm.folder / "completions").iterdir()
    before = part.read_bytes()
    part.unlink()
    import_run([file], out=out)
    assert part.read_bytes() == before
    with pytest.raises(MixError, match="made by another command"):
        import_run([write("t.jsonl", 0.5, 8, temperature=1)], out=out)


def test_questions_of_two_tasks_keep_apart_and_of_one_are_joined(
    write: Write, tmp_path: Path
) -> None:
    other = tmp_path / LM_EVAL.name.replace("capitals", "towns")
    other.write_text(LM_EVAL.read_text().replace("No idea", "Unknown") + "\n")
    beside = LM_EVAL.name.replace("samples_capitals_leakage", "results").replace("jsonl", "json")
    (tmp_path / beside).write_text((LOGS / beside).read_text())
    run = import_run([LM_EVAL, other], out=tmp_path / "apart")
    tasks = ("capitals_leakage", "towns_leakage")
    assert [q.id for q in run.queries] == [f"{task}/{i}" for task in tasks for i in range(3)]
    files = [write(f"{name}.jsonl", 0.5, 8, temperature=1, seed=name) for name in ("one", "two")]
    run = import_run(files, out=tmp_path / "joined")
    assert [q.id for q in run.queries] == ["France", "Spain"]
    assert run.arms["target"].plan.n == 16


def test_what_cannot_be_imported_is_refused_and_leaves_nothing(
    write: Write, tmp_path: Path
) -> None:
    greedy = write("greedy.jsonl", 1.0, 1, temperature=0)
    sampled = write("s.jsonl", 0.5, 8, temperature=1)
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(sampled.read_bytes())
    other = tmp_path / "other.jsonl"
    other.write_text('{"id": "x", "question": "Who?", "completion": "y", "temperature": 0}')
    out = tmp_path / "run"
    for files, form, told in [
        ([greedy], None, "drawn greedily"),
        ([sampled, sampled], None, "named twice"),
        ([sampled, copy], None, "named twice, or a copy"),
        ([sampled, other], None, "about other questions"),
        ([tmp_path / "run.txt"], None, "cannot tell the format"),
        ([sampled], "inspect", "no whole log of inspect_ai"),
        ([sampled], "csv", "unknown format 'csv'"),
        ([tmp_path / "absent.jsonl"], None, "cannot read"),
        ([], None, "no file to import"),
    ]:
        with pytest.raises(InputError, match=told):
            import_run(files, out=out, form=form)
    assert not out.exists()
    assert leakbound("import", greedy, "--out", out) == 2


@pytest.mark.parametrize("step", ["score", "bound"])
def test_a_run_without_a_scorer_of_its_own_asks_for_one(
    tmp_path: Path, write: Write, capsys: pytest.CaptureFixture[str], step: str
) -> None:
    out = tmp_path / "run"
    assert leakbound("import", write("s.jsonl", 0.2, 20, answer=None), "--out", out) == 0
    assert leakbound(step, out) == 2
    assert "names no scorer" in capsys.readouterr().err
