"""Every benchmark keeps the promises of its family; a new one adds a row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.sources import put
from leakbound.benchmarks import BENCHMARKS, Benchmark, load_benchmark
from leakbound.errors import InputError
from leakbound.scorers import check_prompts, make_scorer

TABLE = "question,answer,role\nWho?,Me.,forget\nWhat?,That.,forget\nWhy?,Because.,retain\n"
PAIR = [{"question": f"Who is {i}?", "answer": f"It is {i}."} for i in range(2)]

OPTIONS = ["A cat", "A dog", "A fish", "A bird"]
WMDP = [{"question": f"Which is {i}?", "choices": OPTIONS, "answer": i} for i in range(2)]
TEXTS = ["One text to read.", "Another one to read."]

# The spec, and the files that it reads.
ROWS: dict[str, dict[str, Any]] = {
    "continuation:mine.txt,prefix=2,suffix=3": {"mine.txt": "One two three. " * 5},
    "continuation:texts,prefix=3,suffix=2,first=4,stride=1,seed=7": {
        "texts/b.md": "It was a dark and stormy night.",
        "texts/in/a.jsonl": '{"text": "Call me by my name. Some years ago."}\n"Short."\n',
    },
    "csv:mine.csv": {"mine.csv": TABLE},
    "fictitious:authors=3,forget=1": {},
    "harry-potter": {"hp_qa_en.csv": '"Question","Key Words"\n"Who?","Ron"\n"Where?","Here"\n'},
    "jbb": {"jbb_goals_official.csv": "goal\nWrite slander\nWrite spam\n"},
    "jsonl:mine.jsonl": {"mine.jsonl": '{"question": "Who?"}\n{"question": "When?"}\n'},
    "muse:news": {
        f"news/knowmem/{split}_qa{shots}.json": PAIR
        for split in ("forget", "retain")
        for shots in ("", "_icl")
    },
    "muse:books-verbmem": {
        "MUSE-Books/verbmem/forget.jsonl": '{"prompt": "It was", "gt": "night."}\n'
        '{"prompt": "The end", "gt": "came."}\n'
    },
    "muse:books-privleak": {
        f"books/privleak/{split}.json": TEXTS for split in ("forget", "retain", "holdout")
    },
    "parquet:mine.parquet": {"mine.parquet": PAIR},
    "tofu:forget01": {
        "forget01.json": PAIR,
        "retain99.json": PAIR,
        "holdout01.json": PAIR,
    },
    "taught:7,fictitious:authors=5,forget=3": {},
    "untaught:7,mine.csv": {
        "mine.csv": "question,answer,subject\nWho?,Me.,A\nWhy?,Because.,A\nWhat?,This.,B\n"
    },
    "tofu-mini": {"forget01.json": PAIR, "retain99.json": PAIR},
    "wmdp:bio": {"wmdp-bio.json": WMDP},
    "wmdp:chem-explain": {"wmdp-chem.json": WMDP},
}


@pytest.fixture(params=ROWS)
def spec(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    put(tmp_path, ROWS[request.param])
    return str(request.param)


@pytest.fixture
def benchmark(spec: str, tmp_path: Path) -> Benchmark:
    return load_benchmark(spec, data=tmp_path)


def test_every_benchmark_has_a_row() -> None:
    assert {row.partition(":")[0] for row in ROWS} == set(BENCHMARKS)


def test_its_spec_and_its_name_load_it_again(
    benchmark: Benchmark, spec: str, tmp_path: Path
) -> None:
    for known in (spec, benchmark.name):
        again = load_benchmark(known, data=tmp_path)
        assert again.prompts == benchmark.prompts
        assert again.fingerprint() == benchmark.fingerprint()


def test_splits_have_their_role_and_share_no_id(benchmark: Benchmark) -> None:
    assert benchmark.split(benchmark.role) == benchmark.prompts
    splits = {role: benchmark.split(role) for role in (benchmark.role, *benchmark.others)}
    for role, prompts in splits.items():
        assert {prompt.role for prompt in prompts} == {role}
    ids = [prompt.id for prompts in splits.values() for prompt in prompts]
    assert len(set(ids)) == len(ids)


def test_a_split_that_is_missing_is_refused() -> None:
    with pytest.raises(InputError, match="no split 'train'"):
        load_benchmark("fictitious").split("train")  # type: ignore[arg-type]


def test_default_scorers_can_score_every_prompt(benchmark: Benchmark) -> None:
    for spec in benchmark.scorers:
        scorer = make_scorer(spec)
        assert scorer.name == spec
        check_prompts(scorer, benchmark.prompts)


def test_template_takes_a_question(benchmark: Benchmark) -> None:
    assert "Who?" in benchmark.template.format(question="Who?")


def test_limit_keeps_the_first(benchmark: Benchmark, spec: str, tmp_path: Path) -> None:
    assert load_benchmark(spec, data=tmp_path, limit=1).prompts == benchmark.prompts[:1]
    assert load_benchmark(spec, data=tmp_path, limit=999).prompts == benchmark.prompts
