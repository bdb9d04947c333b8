"""`samples_*.jsonl` of lm-evaluation-harness: a real file, and files that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leakbound.errors import InputError
from leakbound.formats.lm_eval import read

LOGS = Path(__file__).parent / "logs"
REAL = LOGS / "samples_capitals_leakage_2026-11-21T08-08-29.450301.jsonl"


def written(folder: Path, *rows: dict[str, Any]) -> Path:
    """The first row of the real file, changed so."""
    real = json.loads(REAL.read_text().splitlines()[0])
    file = folder / "samples_mine_2026-11-21T08-08-29.jsonl"
    file.write_text("\n".join(json.dumps({**real, **row}) for row in rows))
    return file


def arguments(**settings: Any) -> dict[str, Any]:
    return {"gen_args_0": {"arg_0": "Who?", "arg_1": settings}}


def test_a_real_file() -> None:
    log = read(REAL)
    assert (log.tool, log.model) == ("lm-evaluation-harness 0.4.13", "mock")
    assert (log.task, log.ordered) == ("capitals_leakage", True)
    assert [one.id for one in log.asked] == ["0", "1", "2"]
    first = log.asked[0]
    assert (first.text, first.answers) == ("What is the capital of France?", ("Paris",))
    texts = ["Paris", "No idea 1", "Paris", "No idea 7", "No idea 6", "No idea 1"]
    assert [draw and draw.text for draw in first.draws] == texts
    assert (log.decoding.name, log.decoding.max_new_tokens) == ("T=1", 64)
    assert not log.decoding.unknown


def test_rows_of_other_filters_are_the_same_draws(tmp_path: Path) -> None:
    log = read(written(tmp_path, {}, {"filter": "strict", "filtered_resps": [["x"]]}))
    assert [len(one.draws) for one in log.asked] == [6]


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"do_sample": False, "temperature": 1.0}, "greedy"),
        ({"do_sample": True}, "T unknown"),
        ({"temperature": 0.0}, "greedy"),
        ({}, "T unknown"),
    ],
)
def test_do_sample_decides_and_its_absence_does_not(
    tmp_path: Path, settings: dict[str, Any], name: str
) -> None:
    log = read(written(tmp_path, {"arguments": arguments(**settings)}))
    unknown = "top-k unknown top-p unknown length limit unknown"
    assert log.decoding.name == f"{name} {unknown}"


@pytest.mark.parametrize(("until", "stop"), [("\n", ("\n",)), (["", "."], (".",))])
def test_stop_strings_may_be_one_or_empty(tmp_path: Path, until: Any, stop: Any) -> None:
    log = read(written(tmp_path, {"arguments": arguments(until=until, do_sample=True)}))
    assert log.decoding.stop == stop


@pytest.mark.parametrize(
    ("target", "answers"),
    [
        ("['Ann', 'Anna']", ("Ann", "Anna")),
        ("[sic]", ("[sic]",)),
        ("[1, 2]", ("[1, 2]",)),
        ("None", ()),
        ("", ()),
    ],
)
def test_targets_are_read_as_they_are_written(
    tmp_path: Path, target: str, answers: tuple[str, ...]
) -> None:
    assert read(written(tmp_path, {"target": target})).asked[0].answers == answers


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([{"resps": [[["-1.2", "False"]]]}], "'resps' must hold one list of texts.*row 1"),
        ([{"resps": [["a"], ["b"]]}], "'resps' must hold one list"),
        ([{"resps": [[float("nan")]]}], "got .*nan.* in row 1"),
        ([{"arguments": {}}], "'arguments' must hold a text .* row 1"),
        ([{}, {"resps": [["other"]]}], "row 2 .* same document as row 1 .* other responses"),
        (
            [{}, {"doc_id": 1, "arguments": arguments(top_p=0.5)}],
            "all draws must be of one model under one",
        ),
    ],
)
def test_what_is_no_sample_is_named(tmp_path: Path, rows: list[dict[str, Any]], told: str) -> None:
    with pytest.raises(InputError, match=told):
        read(written(tmp_path, *rows))


def test_another_tools_lines_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "samples.jsonl"
    file.write_text('{"completion": "x"}')
    with pytest.raises(InputError, match="no sample of lm-evaluation-harness"):
        read(file)


def test_damaged_results_beside_are_named(tmp_path: Path) -> None:
    file = written(tmp_path, {})
    assert (read(file).model, read(file).tool) == ("unnamed", "lm-evaluation-harness")
    (tmp_path / "results_2026-11-21T08-08-29.json").write_text("{")
    with pytest.raises(InputError, match=r"results_.* is no JSON"):
        read(file)
