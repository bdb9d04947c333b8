"""`leakbound import` and every later step, on files of three tools."""

from __future__ import annotations

import gc
import json
import random
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from cli.commands import done, leakbound, refused
from contents import completions
from formats.reading import read
from hostile.logs import header
from hostile.logs import sample as whole_sample
from leakbound.errors import InputError, MixError
from leakbound.formats.importing import import_run
from leakbound.store import Arm, ImportedDraws, Run
from leakbound.text.rows import each_row
from leakbound.types import Decoding

LOGS = Path(__file__).parent / "logs"
LM_EVAL = LOGS / "samples_capitals_leakage_2026-11-21T08-08-29.450301.jsonl"
ANSWERS = {"France": "Paris", "Spain": "Madrid"}
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write samples of questions about capitals; this fraction of the draws leaks."""

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
    ("file", "form", "message"),
    [
        (LOGS / "capitals.eval", "inspect", "inspect_ai 0.3.285, T=1 top-p=0.9 top-k unknown"),
        (LM_EVAL, "lm-eval", "lm-evaluation-harness 0.4.13, T=1"),
    ],
)
def test_every_step_works_on_imports(tmp_path: Path, file: Path, form: str, message: str) -> None:
    out = tmp_path / "run"
    assert f"as sampled by {message}" in done("import", file, "--out", out).out
    done("score", out, "--scorer", "contains")
    shown = done("bound", out, "--scorer", "contains").out
    assert f"imported draws, sampled by {message}, as their files state" in shown
    assert "greedy answer" not in shown
    assert f"sampled by {message}, as" in done("report", out).out
    page = (out / "report.html").read_text()
    assert message in page
    late = "Leaks are decided by the scorer contains, chosen after drawing"
    assert late in shown
    assert late in page
    assert not Run.open(out).record.headline.prior
    assert ("distribution not truncated" in page) is ("unknown" not in message)
    again = import_run([file], out=tmp_path / "again", form=form)
    assert again.arms["target"].identity == Run.open(out).arms["target"].identity


def test_missing_draws_and_the_greedy_answers_arrive(write: Write, tmp_path: Path) -> None:
    sampled = write("sampled.jsonl", 0.4, 150, missing=30, temperature=0.8, seed=None)
    greedy = write("greedy.jsonl", 1.0, 2, temperature=0)
    run = import_run([sampled, greedy], out=tmp_path / "run")
    arm = run.arms["target"]
    assert arm.decoding == Decoding(temperature=0.8, unknown=arm.decoding.unknown)
    assert arm.decoding.unknown == ("top_k", "top_p", "max_new_tokens")
    assert "60 of 300 draws failed and count as missing" in arm.usage.notes
    assert (arm.usage.draws, run.arms["greedy"].usage.draws) == (300, 2)
    done("score", run.path, "--scorer", "contains")
    (file,) = (arm.folder / "scores").glob("*.parquet")
    scores = arm.scores(file.stem, binary=True)
    rows = [json.loads(line) for line in sampled.read_text().splitlines()]
    texts = [row["completion"] or "" for row in rows if row["id"] == "France"]
    assert scores.ids == ("France", "Spain")
    assert (scores.n.tolist(), scores.missing.tolist()) == ([150, 150], [30, 30])
    assert scores.hits.tolist()[0] == sum("Paris" in text for text in texts)
    done("bound", run.path, "--scorer", "contains")
    assert {row.arm for row in run.estimates.where(quantity="greedy score")} == {"greedy"}


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
    drawn = {(row["query_id"], row["answer"]) for row in completions(run.arms["target"])}
    known = {(query, text) for query, text in drawn if "No idea" not in text}
    assert known == {("es", "Madrid"), ("fr", "Paris")}
    lands = tmp_path / "lands.csv"
    lands.write_text("id,question,answer\nx,What is the capital,y\n")
    with pytest.raises(InputError, match="same question of benchmark"):
        import_run([file], out=tmp_path / "b", benchmark=str(lands))
    lands.write_text("id,question,answer\nx,Who?,y\n")
    with pytest.raises(InputError, match=r"'France' must contain .* got 0 matches"):
        import_run([file], out=tmp_path / "b", benchmark=str(lands))
    assert not (tmp_path / "b").exists()


def test_a_log_of_openunlearning_is_the_greedy_baseline(write: Write, tmp_path: Path) -> None:
    wanted = {7: ("France", "Paris"), 3: ("Spain", "No idea.")}
    entries = {
        str(row): {
            "input": f"user\n\nWhat is the capital of {land}?assistant\n\n",
            "ground_truth": ANSWERS[land],
            "generation": text,
        }
        for row, (land, text) in wanted.items()
    }
    log = tmp_path / "TOFU_EVAL.json"
    log.write_text(json.dumps({"forget_Q_A_ROUGE": {"agg_value": 0.5, "value_by_index": entries}}))
    mine = tmp_path / "mine.csv"
    mine.write_text(
        "id,question,answer\n"
        "Spain,What is the capital of Spain?,Madrid\nFrance,What is the capital of France?,Paris\n"
    )
    file = write("s.jsonl", 0.5, 40, temperature=1)
    file.write_text(file.read_text().replace("What is the", "Name the"))  # known only by id
    run = import_run([file, log], out=tmp_path / "run", benchmark=str(mine))
    done("score", run.path, "--scorer", "contains")
    done("bound", run.path, "--scorer", "contains")
    own = run.estimates.where(arm="greedy", quantity="greedy score", scope="query")
    greedy = {row.query_id: row.value for row in own}
    assert greedy == {"Spain": 0.0, "France": 1.0}
    log.write_text(log.read_text()[:-1] + ', "retain_Q_A_ROUGE": {"agg_value": 1}}')
    assert read(log).note == "answers of `TOFU_EVAL.json` to retain are not imported"
    assert not read(log, part="forget").note
    seen = run.arms["greedy"].spec.draws.sampled_by
    assert seen.startswith("OpenUnlearning, greedy")
    with pytest.raises(InputError, match="name the benchmark that has all questions"):
        import_run([file, log], out=tmp_path / "b")
    del entries["3"]
    log.write_text(json.dumps({"forget_Q_A_ROUGE": {"agg_value": 1.0, "value_by_index": entries}}))
    with pytest.raises(InputError, match="other samples have different questions"):
        import_run([file, log], out=tmp_path / "b", benchmark=str(mine))
    assert not (tmp_path / "b").exists()


_OUTPUT = "It is Bluebird."
_DOCUMENT = {"doc_id": 0, "resps": [[_OUTPUT]], "arguments": {"gen_args_0": _OUTPUT}}
_FORGET = {"input": "?", "ground_truth": "!", "generation": _OUTPUT}


def _log_of(values: object) -> dict[str, object]:
    return {"forget_Q_A_ROUGE": {"agg_value": 1, "value_by_index": {"0": values}}}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("s.jsonl", _OUTPUT),
        *(("s.jsonl", {"question": "Who?", "completion": "x", **odd}) for odd in (
            {"completion": [_OUTPUT]}, {"thought": [{"text": _OUTPUT}]}, {"refused": _OUTPUT},
            {"scores": {"judge": _OUTPUT}}, {"scores": _OUTPUT})),
        ("samples_t_2026-11-21T08-08-29.jsonl", _DOCUMENT),
        ("samples_t_2026-11-21T08-08-29.jsonl", _DOCUMENT | {"resps": [[[_OUTPUT]]]}),
        ("TOFU_EVAL.json", [_OUTPUT]),
        ("TOFU_EVAL.json", _log_of([_OUTPUT])),
        ("TOFU_EVAL.json", _log_of(_FORGET | {"generation": [_OUTPUT]})),
        ("log.json", {"samples": [whole_sample([_OUTPUT])], **header()}),
        ("log.json", {"samples": [whole_sample(), _OUTPUT], **header()}),
        ("log.json", {"samples": [whole_sample()], **header(_OUTPUT)}),
    ],
)  # fmt: skip
def test_no_message_quotes_an_output(tmp_path: Path, name: str, value: Any) -> None:
    (tmp_path / name).write_text(json.dumps(value))
    with pytest.raises(InputError) as seen:
        import_run([tmp_path / name], out=tmp_path / "run")
    assert "Bluebird" not in str(seen.value)


def test_the_same_command_resumes_and_another_is_refused(write: Write, tmp_path: Path) -> None:
    file, out = write("s.jsonl", 0.5, 8, temperature=1), tmp_path / "run"
    arm = import_run([file], out=out).arms["target"]
    (part,) = (arm.folder / "completions").iterdir()
    before = part.read_bytes()
    part.unlink()
    import_run([file], out=out)
    assert part.read_bytes() == before
    with pytest.raises(MixError, match="made by a different command"):
        import_run([write("t.jsonl", 0.5, 8, temperature=1)], out=out)


def test_questions_of_one_task_are_joined(write: Write, tmp_path: Path) -> None:
    other = tmp_path / LM_EVAL.name.replace("capitals", "towns")
    other.write_text(LM_EVAL.read_text().replace("No idea", "Unknown") + "\n")
    others = LM_EVAL.name.replace("samples_capitals_leakage", "results").replace("jsonl", "json")
    (tmp_path / others).write_text((LOGS / others).read_text())
    run = import_run([LM_EVAL, other], out=tmp_path / "apart")
    tasks = ("capitals_leakage", "towns_leakage")
    assert [q.id for q in run.queries] == [f"{task}/{i}" for task in tasks for i in range(3)]
    files = [write(f"{name}.jsonl", 0.5, 8, temperature=1, seed=name) for name in ("one", "two")]
    run = import_run(files, out=tmp_path / "joined")
    assert [q.id for q in run.queries] == ["France", "Spain"]
    assert run.arms["target"].plan.n == 16


def test_a_run_without_logged_scores_needs_a_scorer(tmp_path: Path, write: Write) -> None:
    out = tmp_path / "run"
    done("import", write("s.jsonl", 0.2, 20, answer=None), "--out", out)
    for step in ("score", "bound"):
        refused(leakbound(step, out), "names a scorer")


Rows = list[dict[str, Any]]
Ordered = Callable[[Rows], Rows]


def rows_of(questions: int, n: int, texts: Callable[[int], str], **more: Any) -> Rows:
    """Yield the draws of every question, question by question."""
    more = {"answer": "x", "temperature": 1.0, "top_p": 1.0} | more
    return [
        {"id": f"q{q}", "question": f"What is {q}?", "completion": texts(i), **more}
        for q in range(questions)
        for i in range(n)
    ]


def written(file: Path, rows: Rows) -> Path:
    file.write_text("\n".join(map(json.dumps, rows)))
    return file


def stored(arm: Arm) -> list[dict[str, Any]]:
    """Return the stored rows of an arm, with the scores of its only scorer."""
    (file,) = (arm.folder / "scores").glob("*.parquet")
    scores = pq.read_table(file)["score"].to_pylist()
    return [row | {"score": score} for row, score in zip(completions(arm), scores, strict=True)]


def peak(rows: Rows, folder: Path) -> int:
    """Return the additional peak memory of an import of these rows, in bytes."""
    folder.mkdir()
    file = written(folder / "mine.jsonl", rows)
    gc.collect()
    tracemalloc.start()
    try:
        import_run([file], out=folder / "run")
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.thorough
def test_texts_of_a_file_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakbound.store.plan.PART", 64)  # otherwise everything is one part

    def text(i: int) -> str:
        return f"{i:04d}" * 250

    few, many = (rows_of(questions, 64, text) for questions in (2, 6))
    import_run([written(tmp_path / "first.jsonl", few)], out=tmp_path / "first")  # fill caches
    grown = peak(many, tmp_path / "many") - peak(few, tmp_path / "few")
    assert grown / (len(many) - len(few)) < 300  # bytes per row with a text of a thousand


def test_rows_are_given_before_the_next_are_read(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n\r\n{"a": 2}\r{"a": 3}\n{"a": 4\n\xff\n')
    rows = each_row(file)
    assert [(row.number, row.values) for row in islice(rows, 3)] == [
        (number, {"a": number}) for number in (1, 2, 3)
    ]
    with pytest.raises(InputError, match=r"row 4 of .* is not valid JSON"):
        next(rows)
    file.write_bytes(b'{"a": 1}\n\n{"a": "\xff"}\n')
    rows = each_row(file)
    assert next(rows).number == 1
    with pytest.raises(InputError, match=r"not UTF-8 in line 3: .* byte 0xff in position 7"):
        next(rows)


def shuffled(rows: Rows) -> Rows:
    """Questions in random order, each with its first row first; draws of each in random order."""
    mine: dict[str, Rows] = {}
    for row in reversed(rows):
        mine.setdefault(row["id"], []).append(row)
    first = list(dict.fromkeys(row["id"] for row in rows))
    rest = [id for id in first for _ in mine[id][1:]]
    random.Random(1).shuffle(rest)
    return [mine[id].pop() for id in [*first, *rest]]


def test_the_order_of_bets_follows_from_ids_questions_and_n(tmp_path: Path, write: Write) -> None:
    """Not from the order of the questions, blanks around them or settings that a file states."""

    def order(name: str, change: Callable[[Rows], Rows], n: int = 4) -> int:
        file = write(f"{name}.jsonl", 0.5, n)
        rows = change([json.loads(line) for line in file.read_text().splitlines()])
        file.write_text("\n".join(map(json.dumps, rows)))
        run = import_run([file], out=tmp_path / name)
        (arm,) = run.arms.values()
        assert isinstance(arm.spec.draws, ImportedDraws)
        return arm.spec.draws.order

    def queried(text: str) -> Callable[[Rows], Rows]:
        return lambda rows: [{**r, "question": text.format(r["question"])} for r in rows]

    first = order("first", list)
    assert order("turned", lambda rows: rows[::-1]) == first
    assert order("blank", queried("{} ")) == first
    assert order("stated", lambda rows: [{**r, "temperature": 0.7} for r in rows]) == first
    assert order("longer", list, n=5) != first
    assert order("other", queried("So? {}")) != first


@pytest.mark.parametrize(("ordered", "array"), [(list, True), (shuffled, False)])
def test_the_order_of_rows_is_irrelevant(tmp_path: Path, ordered: Ordered, array: bool) -> None:
    chance = random.Random(0)
    rows = rows_of(2, 1100, lambda _: f"text {min(int(chance.paretovariate(0.5)), 900)}")
    for row in rows:
        row["scores"] = {"h": chance.choice([0, 0.25, 1, None])}
        row["completion"] = None if chance.random() < 0.01 else row["completion"]
    mine = ordered(rows)
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(mine, indent=1) if array else "\n".join(map(json.dumps, mine)))
    arm = import_run([file], out=tmp_path / "run").arms["target"]
    assert stored(arm) == list(plainly(rows))
    missing = Counter(row["id"] for row in rows if row["completion"] is None)
    assert sum((Counter(meta.missing) for meta in arm.meta()), Counter()) == missing


def plainly(rows: Rows, chunk: int = 1024) -> Iterator[dict[str, Any]]:
    """Return the stored draws with texts and one score: distinct ones per chunk, counted."""
    chunks: dict[tuple[int, str], Counter[tuple[str, float | None]]] = {}
    seen: Counter[str] = Counter()
    for row in rows:
        tally = chunks.setdefault((seen[row["id"]] // chunk, row["id"]), Counter())
        seen[row["id"]] += 1
        if row["completion"] is not None:
            tally[row["completion"], row["scores"]["h"]] += 1
    unknown = ("thought", "tokens", "token_ids", "logprob", "model_logprob", "confidence")
    counted = {"finish": "unknown", "counted": "unrecorded"}
    counted |= dict.fromkeys(("unanswered", "refused", "hidden"), False)
    for (number, id), tally in sorted(chunks.items(), key=lambda pair: (pair[0][1], pair[0][0])):
        for (text, score), count in tally.items():
            one = {"query_id": id, "answer": text, "count": count, "chunk": number, "score": score}
            yield one | counted | dict.fromkeys((*unknown, "logprob_floor"))
