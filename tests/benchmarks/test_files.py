"""Benchmarks from files of users."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leakbound.benchmarks import Benchmark, load_benchmark
from leakbound.errors import InputError
from leakbound.evaluation.verbs import default_scorers
from leakbound.text.rows import read_rows
from leakbound.types import Prompt


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_csv(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "mine.csv",
        "\ufeffQuestion, answer,keywords,note\n"
        '"Who, me?", "You, and ""me""",you; me,x\n'
        'Where?,Here,"[""here, now"", ""there""]",y\n',
    )
    for spec in (path, f"csv:{path}"):
        benchmark = load_benchmark(spec)
        assert [p.question for p in benchmark.prompts] == ["Who, me?", "Where?"]
        assert benchmark.prompts[0].answer == 'You, and "me"'
        assert benchmark.prompts[0].keywords == ("you", "me")
        assert benchmark.prompts[1].keywords == ("here, now", "there")
        assert benchmark.prompts[1].id == "mine/0002"
        assert benchmark.scorers == ("keyword", "rouge-l-recall")
        (note,) = benchmark.notes
        assert note.startswith("ignored columns: note; known columns: id, question, answer")


def test_jsonl_with_roles(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "mine.jsonl",
        '{"id": "a", "question": "Who?\u2028Who?", "paraphrases": ["Who is it?"],'
        ' "thought": "I."}\n\n'
        '{"id": "b", "question": "When?", "answer": null, "role": "retain"}\n',
    )
    benchmark = load_benchmark(path)
    assert benchmark.prompts[0].question == "Who?\u2028Who?"
    assert (benchmark.prompts[0].paraphrases, benchmark.prompts[0].thought) == (
        ("Who is it?",),
        "I.",
    )
    assert benchmark.to_train("forget") == benchmark.prompts
    assert [p.id for p in benchmark.split("retain")] == ["b"]
    assert benchmark.scorers == benchmark.notes == ()


@pytest.mark.parametrize("suffix", ["json", "jsonl", "parquet"])
def test_whole_numbers_become_text(suffix: str, tmp_path: Path) -> None:
    big = 2**60 + 1  # too large for float64
    row = {"id": 7, "question": "When?", "answer": big, "keywords": [1985, -3], "paraphrases": None}
    path = tmp_path / f"mine.{suffix}"
    if suffix == "parquet":
        pq.write_table(pa.Table.from_pylist([row]), path)
    else:
        path.write_text(json.dumps([row] if suffix == "json" else row))
    (prompt,) = load_benchmark(str(path)).prompts
    assert (prompt.id, prompt.answer, prompt.keywords) == (
        "7",
        "1152921504606846977",
        ("1985", "-3"),
    )
    single = write(tmp_path, "one.jsonl", '{"question": "When?", "keywords": 1985}')
    assert load_benchmark(single).prompts[0].keywords == ("1985",)


@pytest.mark.parametrize(
    ("column", "forget", "retain"),
    [("role", "forget", "retain"), ("split", "forget10", "retain90"), ("role", " ", "Retain ")],
)
def test_only_forget_rows_are_evaluated(
    column: str, forget: str, retain: str, tmp_path: Path
) -> None:
    text = f"question,answer,{column}\nWho?,Me,{forget}\nWhen?,Now,{retain}\nWhy?,So,{retain}\n"
    benchmark = load_benchmark(write(tmp_path, "mine.csv", text))
    assert [p.question for p in benchmark.prompts] == ["Who?"]
    assert [p.question for p in benchmark.split("retain")] == ["When?", "Why?"]
    assert {p.role for p in benchmark.split("retain")} == {"retain"}
    assert benchmark.notes == ()


def test_a_keyword_may_hold_a_comma(tmp_path: Path) -> None:
    for row, keywords in (
        ('"[""Washington, D.C."", ""the capital""]"', ("Washington, D.C.", "the capital")),
        ('"Washington, D.C.; the capital"', ("Washington, D.C.", "the capital")),
        ('"Washington, D.C.;"', ("Washington, D.C.",)),
    ):
        path = write(tmp_path, "mine.csv", f"question,keywords\nWhere?,{row}\n")
        assert load_benchmark(path).prompts[0].keywords == keywords


def test_blank_answers_and_equal_questions_are_named_by_row(tmp_path: Path) -> None:
    text = "id,question,answer,split\na,Who?,Me,\nb,When?,,\nc,who? ,You,retain\nd,Why?, ,retain\n"
    benchmark = load_benchmark(write(tmp_path, "mine.csv", text))
    assert benchmark.notes == (
        "no answer in row 2, so rouge-l-recall is not a default scorer",
        "the same question is in rows 1, 3: each row is a separate question",
    )
    with pytest.raises(InputError, match=r"has no default scorer \(no answer in row 2.*--scorer"):
        default_scorers(benchmark)
    many = "question,answer\n" + "Who?,Me\n" + "".join(f"{i}?,\n" for i in range(7))
    (note,) = load_benchmark(write(tmp_path, "many.csv", many)).notes
    assert note.startswith("no answer in rows 2, 3, 4, 5, 6 and 2 more, so")


def test_questions_without_keywords_are_named_if_others_have_keywords(tmp_path: Path) -> None:
    text = "question,answer,keywords\nWho?,Me,me\nWhen?,Now,\n"
    benchmark = load_benchmark(write(tmp_path, "mine.csv", text))
    assert benchmark.scorers == ("rouge-l-recall",)
    assert benchmark.notes == ("no keywords in row 2, so keyword is not a default scorer",)


def test_parquet(tmp_path: Path) -> None:
    rows = [{"question": "Who?", "answer": "Me", "keywords": ["me", "I"]}, {"question": "Why?"}]
    path = tmp_path / "mine.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    first, second = load_benchmark(str(path)).prompts
    assert (first.answer, first.keywords) == ("Me", ("me", "I"))
    assert (second.id, second.answer, second.keywords) == ("mine/0002", None, ())
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(InputError, match="not a complete Parquet file"):
        load_benchmark(str(path))
    columns = [pa.array(["Who?"]), pa.array(["Ann"]), pa.array(["Bob"])]
    pq.write_table(pa.table(columns, ["question", "answer", "Answer"]), path)
    with pytest.raises(InputError, match=r"mine\.parquet' has two columns named 'answer'"):
        read_rows(path)


def test_the_fingerprint_sees_the_answer() -> None:
    whole = load_benchmark("fictitious")
    wanted = [Prompt(id="a", question="Who?", answer=answer) for answer in (None, "me", "you")]
    assert len({replace(whole, prompts=(p,)).fingerprint().sha256 for p in wanted}) == 3


def test_a_benchmark_has_prompts() -> None:
    with pytest.raises(InputError, match="no prompt"):
        Benchmark(name="x", prompts=(), scorers=(), max_new_tokens=1, origin="")


def test_long_cells_are_read_and_blank_columns_ignored(tmp_path: Path) -> None:
    file, long = tmp_path / "a.csv", "word " * 100_000
    file.write_text(f"question,answer,,\nWho?,{long},,\n")
    (row,) = read_rows(file)
    assert row.values["answer"] == long
    assert csv.field_size_limit() == 131_072  # the limit of this process stays
