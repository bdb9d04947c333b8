"""Charts as files: drawn from stored runs, with equal bytes every time, or refused."""

from __future__ import annotations

import csv
import json
import math
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import leakbound
from leakbound.errors import InputError
from leakbound.plotting import KINDS, figures_table
from leakbound.stats import Rows, bound
from leakbound.store import DamagedError, Run
from report_runs import Runs

pytestmark = pytest.mark.slow
ROUGE, BINARY = "rouge-l-recall", "keyword"


@dataclass(frozen=True)
class Made:
    """Two models with one control, a grid, a trained model's folder."""

    runs: tuple[Run, ...]
    grid: Run
    trained: Path


@pytest.fixture(scope="module")
def made(runs: Runs, decodings: Runs, tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("figures")
    return Made((runs["NPO"], runs["full"]), decodings["grid"], trained(folder / "model"))


def trained(folder: Path) -> Path:
    """The files that training writes next to a model's weights."""
    folder.mkdir()
    terms = [
        {"loss": "nll", "split": "retain", "weight": 5.0},
        {"loss": "entropy", "split": "forget", "weight": -0.5},
    ]
    terms = [{**term, "settings": {}, "reduce": "sequence"} for term in terms]
    (folder / "recipe.json").write_text(json.dumps({"objective": {"terms": terms}}))
    lines = [
        {"loss": 1.0, "retain nll": 5 * 0.7 / s, "forget entropy": -0.25 / s, "step": s}
        for s in range(1, 5)
    ]
    (folder / "training.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


@pytest.fixture(scope="module")
def drawn(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("drawn")
    leakbound.figures([*made.runs, made.trained], out, scorer=ROUGE, formats=["svg"])
    return out


def rows(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


def stored(run: Run, arm: str, question: str, scorer: str = ROUGE) -> list[float]:
    """Return every draw's score from the run's table of scores."""
    got: list[float] = []
    for row in run.scores.where(arm=arm, query=question):
        if row.scorer == scorer and row.score is not None:
            got += [row.score] * row.count
    return got


def test_two_calls_give_equal_bytes(made: Made, tmp_path: Path) -> None:
    how = {"only": ["questions", "leak-at-k", "histogram"], "width": "two"}
    first = leakbound.figures(made.runs, tmp_path / "one", **how)
    second = leakbound.figures(made.runs, tmp_path / "two", **how)
    assert [file.name for file in first.files] == [file.name for file in second.files]
    assert {file.suffix for file in first.files} == {".csv", ".pdf", ".svg", ".png"}
    for one, two in zip(first.files, second.files, strict=True):
        assert one.read_bytes() == two.read_bytes(), one.name
    assert b"CreationDate" not in (tmp_path / "one" / "questions.pdf").read_bytes()
    root = ElementTree.parse(tmp_path / "one" / "questions.svg").getroot()
    assert root.get("width") == "496.8pt"  # 6.9 inches of 72


def of(folder: Path, name: str, **wanted: str) -> list[dict[str, str]]:
    """Return the rows of a chart with these cells."""
    return [row for row in rows(folder, name) if wanted.items() <= row.items()]


def test_histogram_and_quantiles_are_those_of_the_stored_scores(made: Made, drawn: Path) -> None:
    run = made.runs[0]
    mine = of(drawn, "histogram", model="npo", quantity="draws")
    scores = stored(run, "target", mine[0]["question"])
    lefts = Counter(min(int(score * 40 + 1e-9), 39) for score in scores)
    shares = {round(float(r["score"]) * 40): round(float(r["value"]) * len(scores)) for r in mine}
    assert {left: count for left, count in shares.items() if count} == lefts
    assert sum(float(row["value"]) for row in mine) == pytest.approx(1)
    (mean,) = of(drawn, "histogram", model="npo", quantity="mean")
    assert float(mean["value"]) == pytest.approx(np.mean(scores))
    for row in of(drawn, "answers", model="npo", quantity="90 % of draws"):
        ordered = sorted(stored(run, "target", row["question"]))
        for name, share in (("lower", 0.05), ("value", 0.5), ("upper", 0.95)):
            assert float(row[name]) == ordered[math.ceil(share * len(ordered)) - 1]


def test_convergence_ends_with_all_draws_and_narrows(made: Made, drawn: Path) -> None:
    run = made.runs[0]
    mine = of(drawn, "convergence", model="npo", quantity="mean score")
    assert [int(row["n"]) for row in mine] == [8, 16, 32, 64]
    scores = stored(run, "target", mine[0]["question"])
    assert float(mine[-1]["value"]) == pytest.approx(np.mean(scores))
    estimate = bound(Rows.of(np.array([sorted(scores)])), confidence=0.99, side="both", seed=1)
    assert float(mine[-1]["upper"]) == pytest.approx(float(estimate.upper[0]), abs=0.05)
    widths = [float(row["upper"]) - float(row["lower"]) for row in mine]
    assert widths[-1] < widths[0] / 2
    # the first n are draws of the distribution: their means are means of n existing scores
    for row in mine:
        n = int(row["n"])
        assert 0 <= float(row["value"]) * n <= sum(sorted(scores)[-n:]) + 1e-6


def test_leak_at_k_has_a_joint_band_around_the_unbiased_estimate(made: Made, drawn: Path) -> None:
    run = made.runs[0]
    mine = {int(row["k"]): row for row in of(drawn, "leak-at-k", model="npo", quantity="leak@k")}
    assert list(mine) == [1, 2, 4, 8, 16]  # a quarter of the draws
    for k in (1, 8):
        each = []
        for question in [f"author-0{i}" for i in range(3)]:
            scores = np.sort(stored(run, "target", question))
            below = [math.comb(i, k) / math.comb(len(scores), k) for i in range(len(scores) + 1)]
            each.append(float(np.diff(below) @ scores))
        assert float(mine[k]["value"]) == pytest.approx(np.mean(each))
        assert float(mine[k]["lower"]) < float(mine[k]["value"]) < float(mine[k]["upper"])
    single = run.estimates.mean("mean leakage", scorer=ROUGE)
    assert float(mine[1]["upper"]) > single.upper  # all k cost more than the mean


def test_a_training_is_drawn_without_the_weights_of_its_terms(drawn: Path) -> None:
    mine = rows(drawn, "confidence")
    entropy = [float(row["value"]) for row in mine if row["quantity"] == "entropy"]
    assert entropy == pytest.approx([0.5, 0.25, 0.5 / 3, 0.125])
    probability = [float(row["value"]) for row in mine if row["quantity"] == "probability"]
    assert probability == pytest.approx([math.exp(-0.7 / s) for s in range(1, 5)])
    assert {row["model"] for row in mine} == {"model"}


def test_decodings_are_drawn_as_grid_and_curves(made: Made, tmp_path: Path) -> None:
    leakbound.figures([made.grid], tmp_path, only=["grid", "temperature"], formats=["png"])
    cells = [row for row in rows(tmp_path, "grid") if row["quantity"] == "leak probability"]
    assert {(row["temperature"], row["top_p"]) for row in cells} == {
        (t, p) for t in ("0.5", "1") for p in ("0.9", "1.0")
    }
    lines = rows(tmp_path, "temperature")
    assert {row["line"] for row in lines} == {"top-p 0.9", "top-p 1"}


def test_every_figure_is_drawn_and_names_its_paper(made: Made, drawn: Path) -> None:
    seen = {row[0]: row for row in figures_table([*made.runs, made.trained], scorer=ROUGE).texts}
    assert list(seen) == list(KINDS)
    given = {name for name, row in seen.items() if row[3] == "yes"}
    assert given == {file.stem for file in drawn.glob("*.svg")}
    assert given == set(KINDS) - {"grid", "temperature", "utility", "far"}
    assert seen["utility"][3] == "no: this figure needs runs of several models with --metrics all"
    for kind in KINDS.values():
        assert any(of in kind.paper for of in ("Scholten", "Leak@k"))


def test_what_cannot_be_drawn_is_left_out_with_its_reason(made: Made, tmp_path: Path) -> None:
    got = leakbound.figures(
        made.runs, tmp_path, only=["tail", "questions"], scorer=BINARY, formats=["png"]
    )
    assert [file.name for file in got.files] == ["questions.csv", "questions.png"]
    why = "this figure needs a graded scorer, with scores between 0 and 1 (name one with --scorer)"
    assert got.left_out == {"tail": why}
    with pytest.raises(InputError, match=r"none of the figures .*grid: this figure needs a run"):
        leakbound.figures(made.runs, tmp_path / "none", only=["grid"])
    assert not (tmp_path / "none").exists()


def test_what_cannot_be_read_or_is_not_there_is_refused(made: Made, tmp_path: Path) -> None:
    damaged, broken = tmp_path / "damaged", trained(tmp_path / "broken")
    file = Path(shutil.copytree(made.runs[0].path, damaged)) / "estimates.parquet"
    file.write_bytes(file.read_bytes()[:-50])
    (broken / "training.jsonl").write_text('{"step": 1}\n{"loss": \n')
    for given, how, error, why in (
        ([], {}, InputError, "no run was given"),
        ([tmp_path], {}, InputError, "is not a run directory"),
        ([made.runs[0]] * 2, {}, InputError, "a run was given twice"),
        ([damaged], {}, DamagedError, r"estimates\.parquet"),
        ([broken], {}, DamagedError, r"line 2 of `.*training\.jsonl`"),
        (made.runs, {"only": ["tial"]}, InputError, "Did you mean 'tail'"),
        (made.runs, {"width": 0.5}, InputError, "from 2 to 20 inches, got 0.5"),
        (made.runs, {"question": "q9"}, InputError, "no `--question q9`.* are: author-00"),
    ):
        with pytest.raises(error, match=why):
            leakbound.figures(given, tmp_path / "out", **how)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()
