"""Every refusal of a benchmark: bad specs, files, rows, subjects and profiles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.sources import OPTIONS, POTTER, TOFU, WMDP_ROW, put
from leakbound.benchmarks import load_benchmark
from leakbound.errors import InputError


def second(name: str, **wrong: Any) -> dict[str, Any]:
    """A file of TOFU with a second row that is wrong; `...` removes a value."""
    first, row = TOFU[name]
    return {name: [first, {k: v for k, v in (row | wrong).items() if v is not ...}]}


def people(*subjects: str) -> dict[str, str]:
    rows = (f"Where was {i} born?,In {i}.,{who}" for i, who in enumerate(subjects))
    return {"people.csv": "\n".join(["question,answer,subject", *rows])}


TWELVE = {"one.txt": "a b  c\nd e f g\th i j k l"}
NO_ANSWER = {"a.csv": "question,answer\nWho?,\n"}
TAKES = "needs the seed of --coin and a benchmark"
NAMED = [
    ("tofu:forget10", second("forget10.json", answer=None), "row 2 of .*10.json' has no 'answ"),
    ("tofu:forget10", second("forget10_perturbed.json", perturbed_answer=[]), "row 2 of .*no"),
    ("tofu:forget10", second("forget10_perturbed.json", question="?"), "row 2 .* must match"),
    ("tofu:forget10", second("forget10.json", reply="Me.", answer=...), "'answer', only 'qu"),
    ("tofu:forget50", {}, "no split 'forget50'"),
    ("tofu", {}, "The choices are: forget01"),
    ("tofu-mini:forget05", {}, "has no splits, got 'forget05'"),
    ("muse:books-privleak", {"hp/privleak/forget.json": ["A b.", "one"]}, "row 2 .* got 'one'"),
    *((spec, {}, "MUSE has no .* news-privleak") for spec in ("muse", "muse:a", "muse:news-b")),
    ("wmdp:bio", {"bio.json": [WMDP_ROW, WMDP_ROW | {"choices": OPTIONS[:3]}]}, "got 3 in row 2"),
    ("wmdp:bio", {"bio.json": [WMDP_ROW, WMDP_ROW | {"answer": 4}]}, "0 to 3, got 4 in row 2"),
    ("wmdp:chem", {}, r"wmdp-chem/test-00000-of-00001\.parquet.*cais/wmdp.*wmdp-chem\.parquet"),
    ("wmdp:physics", {}, "WMDP has no 'physics'.*cyber"),
    ("harry-potter", {"hp_qa_en.csv": POTTER.replace("J.K., magic school", ",")},
     "row 1 of .* has no 'key words'. Fill it in"),
    ("jbb", {"jbb_goals_official.csv": "behavior\nSlander\n"}, "no 'goal', only 'behavior'"),
    ("jbb", {}, r"data/harmful-behaviors.csv.* jbb_goals_official.csv"),
    ("jbb:all", {}, "`jbb` has no splits, got 'all'"),
    ("toffu:forget10", {}, r"benchmark 'toffu'. Did you mean 'tofu'\?"),
    ("fictitious:autors=3", {}, "Did you mean 'authors'"),
    ("fictitious:questions=21", {}, "1 to 20, got 21"),
    ("fictitious:authors=1000000", {}, "at most"),
    ("fictitious:thoughts=answers", {}, "Did you mean 'answer'"),
]  # fmt: skip
COINS = [
    ("taught:1,people.csv", people("Ann", "Ann"), "has 1"),
    ("taught:1,people.csv", people("", ""), r"'csv:people.csv' has 0"),
    ("taught:1,people.csv", people("Ann", "", "Bob"), "is blank in row 2"),
    ("taught:x,people.csv", people("Ann", "Bob"), TAKES),
    ("taught:7", {}, TAKES),
    ("untaught:-1,people.csv", people("Ann", "Bob"), TAKES),
]
CONTINUED = [
    ("continuation", {}, "needs documents: a file, a folder or a corpus"),
    ("continuation:empty", {"empty/.hidden.txt": "a"}, "empty' contains no text file"),
    ("continuation:blank.txt", {"blank.txt": " \n"}, "'blank.txt' contains no text"),
    (
        "continuation:one.txt",
        TWELVE,
        "together need 100 words, but the longest document of 'one.txt' has 12 words",
    ),
    ("continuation:one.txt,prefix=3,first=2", TWELVE, "first` must be at least 3, got 2"),
]
OWN = [
    ("a.csv", "question\n", "has no rows"),
    ("a.csv", "frage\nWer?\n", "has no 'question', only 'frage'. Add it, or rename"),
    ("a.csv", "question;answer\nWho?;Ann\n", "Separate columns by commas, not by ';'"),
    ("a.csv", "question,answer\nWho?,me\n ,you\n", "row 2 of .* has no 'question'"),
    ("a.csv", "question,answer\nWho, me?,me\n", "row 1 of .* must have 2 fields"),
    ("a.csv", 'question\nWho?\n"Who\n', "row 2 of .* is not valid CSV"),
    ("a.json", '[{"question": "Who?", "Answer": "A", "answer": "B"}]', "two .*named 'answer'"),
    ("a.csv", "question,id\nWho?,x\nMe?,x\n", "'x' more than once"),
    ("a.csv", "question,role\nWho?,forgot\n", "role 'forgot' in row 1.*Did you mean 'forget'"),
    ("a.csv", "question,split,role\nWho?,retain,forget\n", "`role` 'forget' and `split` 'ret"),
    ("a.csv", 'question,keywords\nWhere?,"Washington, D.C."\n',
     r"'Washington, D.C.' of row 1.* Write \[\"Washington, D.C.\"\] for one keyword, or 'Wash"),
    ("a.jsonl", '{"question": "Who?"}\n{"question": \n', "row 2 of .* is not valid JSON"),
    ("a.json", '[{"question": "W?", "keywords": [1.5]}]', 'list of texts, got .1.5.* "1.5"'),
    ("a.json", '[{"question": "A?", "id": 1}, {"question": "B?", "id": "1"}]', "got '1' more"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "files", "message"),
    [*NAMED, *COINS, *CONTINUED, *((name, {name: text}, shown) for name, text, shown in OWN)],
)
def test_bad_benchmarks_are_refused(
    spec: str, files: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = put(tmp_path / "tofu", TOFU | files) if spec.startswith("tofu") else tmp_path
    with pytest.raises(InputError, match=message):
        load_benchmark(spec, data=put(folder, files))


@pytest.mark.parametrize(
    ("spec", "how", "message"),
    [
        ("fictitious", {"limit": 0}, "at least 1, got 0"),
        ("fictitious", {"data": "no-such-folder"}, "an existing folder"),
        ("fictitious", {"profile": "leak"}, "unknown profile 'leak'. Did you mean 'leak-k'"),
        ("a.csv", {"profile": "leak-k"}, "gold paraphrases, but prompt 'a/0001' has none"),
        ("a.csv", {"profile": "scholten"}, "'Answer: ' before .* prompt 'a/0001' has no"),
        ("none.csv", {}, "No such file"),
        ("latin.csv", {}, "not UTF-8"),
    ],
)
def test_bad_arguments_are_refused(
    spec: str,
    how: dict[str, Any],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(put(tmp_path, NO_ANSWER))
    (tmp_path / "latin.csv").write_bytes(b"question\n\xe9?\n")
    with pytest.raises(InputError, match=message):
        load_benchmark(spec, **how)
