"""The benches: engines are compared, faults and misses counted, speed drivers run."""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

BENCH = Path(__file__).parents[1] / "bench"
ALPHA = 0.01


@pytest.fixture(autouse=True)
def _bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))


def test_other_lengths_and_other_probabilities_are_another_distribution(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from gpu import write_model
    from peers.engine_worker import Work
    from race import Ruler, read, same_distribution

    work = Work([[0, 1, 1]], 600, 5, [])
    ruler = Ruler(write_model("tiny", 1.0, tmp_path / "model", "cpu", "float32"), work)
    draws = np.random.default_rng(1).integers(2, size=(600, 5)).tolist()
    first = read(work, ruler, [draws[:300]])
    assert min(same_distribution(first, read(work, ruler, [draws[300:]]))) > 0.001
    lengths, _ = same_distribution(first, read(work, ruler, [[x[:4] for x in draws[300:]]]))
    assert lengths < 1e-9
    _, probabilities = same_distribution(first, read(work, ruler, [[[1] * 5] * 300]))
    assert probabilities < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("kind", [["bounds", "--rounds", "1"], ["rouge", "--rounds", "1"]])
def test_a_speed_driver_runs(kind: list[str], tmp_path: Path) -> None:
    pytest.importorskip("rouge_score")
    command = [sys.executable, BENCH / "speed.py", *kind, "--json", tmp_path / "found"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((tmp_path / "found").read_text())


def test_a_line_that_was_cut_is_made_again_and_the_others_are_not(tmp_path: Path) -> None:
    from faults import Book, Row

    file = tmp_path / "results.jsonl"
    book = Book(file)
    rows = [Row("faults", "score", f"EIO at {n}", "same") for n in (3, 4)]
    for row in rows:
        book.add(row)
    file.write_text(file.read_text()[:-9])
    again = Book(file)
    assert [again.has(*row.key) for row in rows] == [True, False]
    again.add(rows[1])
    assert set(Book(file).rows) == set(book.rows)


def test_the_tables_count_every_try_once_and_leave_the_page_around_them(tmp_path: Path) -> None:
    from faults import Row, tables
    from runner import write_into

    page = tmp_path / "page.md"
    begin, end = (f"<!-- made by bench/faults.py: {word} -->" for word in ("begin", "end"))
    page.write_text(f"before\n{begin}\nold\n{end}\nafter\n")
    rows = [Row("faults", "score", f"EIO at {n}", "same") for n in range(3)]
    rows += [Row("faults", "bound", "EIO at 1", "lost"), Row("finished", "score", "all", "same")]
    write_into(page, "bench/faults.py", tables(rows))
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert "| `score` | 3 | 3 | 0 | 0 | 0 | 0 |" in text
    assert "| `bound` | 1 | 0 | 0 | 1 | 0 | 0 |" in text
    assert "| together | 4 | 3 | 0 | 1 | 0 | 0 |" in text
    assert "| `EIO` | 4 |" in text


@pytest.mark.parametrize(("trials", "rows"), [(1, 1), (6, 480), (400, 37), (2_000, 480)])
def test_correct_rows_alarm_once_in_a_thousand_runs(trials: int, rows: int) -> None:
    import runner

    most = runner.most_misses(trials, rows, ALPHA)
    assert rows * binom.sf(most, trials, ALPHA) <= runner.FALSE_ALARM
    assert rows * binom.sf(most - 1, trials, ALPHA) > runner.FALSE_ALARM or most == 0
    counted = [(most, trials)] + (rows - 1) * [(0, trials)]
    assert runner.too_often(range(rows), counted, ALPHA) == []
    if most < trials:
        counted[0] = (most + 1, trials)
        assert runner.too_often(range(rows), counted, ALPHA) == [0]
    of_its_own = [(3, 3), (3, 300), (0, 0)]
    assert runner.too_often(["void", "fine", "never made"], of_its_own, ALPHA) == ["void"]
    assert runner.p_value(3, 3, ALPHA) == pytest.approx(1e-6)


SMALL = {"rows": [4, 9], "prompt": 70, "prompts": 2, "new": 4, "shape": "tiny", "model": None}


def test_a_step_is_taken_apart_on_any_device(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from gpu import Laboratory, steps, write_model

    folder = write_model("tiny", 8.0, tmp_path / "model", "cpu", "float32")
    made = list(steps(Laboratory(folder, "cpu", "float32", 1), Namespace(**SMALL)))
    assert [row["rows"] for row in made] == [4, 9]
    for row in made:
        parts = {"gathered, 1", "once, 1", "gathered, 2", "once, 2", "law", "forest"}
        assert set(row) == {"rows", *parts}
        assert min(row.values()) > 0


@pytest.mark.slow
def test_the_bench_of_a_gpu_runs_without_one(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    given = [f"--{k}={v}" for k, v in SMALL.items() if isinstance(v, int | str)]
    command = [sys.executable, BENCH / "gpu.py", *given, "--rows", "4", "--device", "cpu"]
    command += ["--dtype", "float32", "--draws", "9", "--rounds", "1", "--fewer", "4"]
    command += ["--json", tmp_path / "found"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    races = json.loads((tmp_path / "found").read_text())["races"]
    assert [row["engine"] for row in races] == 2 * ["forest", "forest, 4 rows", "transformers"]
    assert all(row["tokens_s"] > 0 for row in races)


def number(quantity: str, lower: float, upper: float, **more: Any) -> dict[str, Any]:
    """A row of a study, as `commits.keyed` keeps it."""
    about = {"scope": "query", "parameter": None, "over": None, "beyond": None, "scorer": "keyword"}
    got = {"value": 0.5, "lower": lower, "upper": upper, "n": 100, "method": ""}
    return {"quantity": quantity, **about, **got, **more}


def test_numbers_at_two_commits_agree_to_1e_12_and_nan_is_null() -> None:
    from commits import differences

    old = {"a": number("tail", 0.1, 0.9, value=float("nan")), "b": {"value": "pass"}}
    near = {"a": number("tail", 0.1 + 1e-13, 0.9, value=None), "b": {"value": "pass"}}
    assert differences(old, near) == []
    for new in (
        {**old, "a": number("tail", 0.1, 0.9 + 1e-9, value=None)},
        {**old, "b": {"value": "refuted"}},
        {"a": old["a"]},
        {**old, "c": number("tail", 0.1, 0.9)},
    ):
        assert len(differences(old, new)) == 1


def test_a_document_that_repeats_a_number_of_the_table_counts_once() -> None:
    from commits import differences

    old, new = (number("mean leakage", x, 0.9) for x in (0.2, 0.1))
    bare = [{name: row[name] for name in ("value", "lower", "upper", "n")} for row in (old, new)]
    repeated = {"--json of show": bare[0]}, {"--json of show": bare[1]}
    assert len(differences(*repeated)) == 1
    assert len(differences({"a": old, **repeated[0]}, {"a": new, **repeated[1]})) == 1
