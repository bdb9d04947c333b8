"""Rewritings from a file reach the prompts they are of, or are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leakbound.benchmarks import with_rewritings
from leakbound.errors import InputError
from leakbound.types import Prompt

PROMPTS = (
    Prompt(id="a", question="Who?", paraphrases=("By whom?",)),
    Prompt(id="b", question="When?"),
    Prompt(id="c", question="When?"),
    Prompt(id="d", question="Where?"),
)


def lines(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_by_question_and_by_id_lists_and_single_ones(tmp_path: Path) -> None:
    file = lines(
        tmp_path / "r.jsonl",
        {"question": " Who? ", "rewritings": ["Which person?", " What one? "]},
        {"question": "When?", "rewriting": "At what time?"},
        {"id": "c", "rewriting": "On which day?", "rewritings": ["In what year?"]},
        {"id": "a", "question": "not read", "rewriting": "Whose?"},
    )
    found = with_rewritings(PROMPTS, file)
    assert [prompt.paraphrases for prompt in found] == [
        ("By whom?", "Which person?", "What one?", "Whose?"),
        ("At what time?",),
        ("At what time?", "In what year?", "On which day?"),
        (),
    ]
    assert [prompt.question for prompt in found] == [prompt.question for prompt in PROMPTS]


def test_csv(tmp_path: Path) -> None:
    file = tmp_path / "r.csv"
    file.write_text('question,rewriting\nWho?,"Say, who?"\nWho?,Which one?\n')
    assert with_rewritings(PROMPTS, file)[0].paraphrases == ("By whom?", "Say, who?", "Which one?")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"question": "Why?", "rewriting": "x"}, "no prompt .* the question 'Why.' of row 2 of"),
        ({"id": "e", "rewriting": "x"}, "no prompt .* the id 'e' of row 2 of"),
        ({"rewriting": "x"}, "row 2 of .* has no 'question'"),
        ({"id": "a"}, "row 2 of .* has no `rewritings`"),
        ({"id": "a", "rewritings": []}, "row 2 of .* has no `rewritings`"),
        ({"id": "a", "rewritings": [" "]}, "row 2 of .* has no `rewritings`"),
        ({"id": "a", "rewritings": ["x", 3]}, "must be a list of texts, .* in row 2 of"),
        ({"id": "a", "rewriting": 3}, "must be text, got 3 in row 2 of"),
        ({"id": 3, "rewriting": "x"}, "must be text, got 3 in row 2 of"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_row(
    tmp_path: Path, row: dict[str, Any], message: str
) -> None:
    file = lines(tmp_path / "r.jsonl", {"id": "a", "rewriting": "Whose?"}, row)
    with pytest.raises(InputError, match=message):
        with_rewritings(PROMPTS, file)


def test_a_file_that_is_missing_or_of_another_kind(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        with_rewritings(PROMPTS, tmp_path / "none.jsonl")
    with pytest.raises(InputError, match=r"must be a \.csv, \.jsonl, \.json, \.parquet file"):
        with_rewritings(PROMPTS, tmp_path / "r.txt")
