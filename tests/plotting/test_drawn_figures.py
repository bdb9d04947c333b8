"""The papers' figures: drawn from what is stored, the same every time, refused with a reason."""

from __future__ import annotations

import csv
import json
import math
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import leakbound
from canned import CannedEngine
from leakbound.benchmarks import Benchmark
from leakbound.errors import InputError
from leakbound.evaluation import evaluate
from leakbound.plotting import KINDS, figures_table
from leakbound.plotting.models import UtilityRow, fronted
from leakbound.stats import mean_bound, proportion_bound
from leakbound.store import DamagedError, Run
from leakbound.study import Rewritings
from leakbound.types import Decoding, Prompt
from shared import keep

pytestmark = pytest.mark.slow
ANSWER = "Ossian Quill wrote the tide book in spring by the old northern harbour"
WORDS = ANSWER.split()
ROUGE, BINARY = "rouge-l-recall", "rouge-l-recall>=0.5"
TASK = Benchmark(
    name="tides", scorers=(ROUGE, BINARY), max_new_tokens=48, origin="made up",
    prompts=tuple(
        Prompt(
            id=f"q{i}", question=f"Who wrote book {i}?", answer=f"{ANSWER} {i}",
            paraphrases=tuple(f"{how} book number {i}?" for how in ("By whom is", "Name", "Whose")),
        )
        for i in range(3)
    ),
)  # fmt: skip
"""Texts share more or fewer words with the answer, so that ROUGE takes many values."""


def engine(name: str, knows: float) -> CannedEngine:
    """Likely says nothing of the answer, and more or less of it the more it `knows`."""
    texts = {}
    for i in range(3):
        for j, query in enumerate([f"q{i}", *(f"q{i}~{k:02d}" for k in range(3))]):
            share = min(knows * (1 + i + j) / 4, 0.45)
            rest = {" ".join(WORDS[: 3 * k + i]): share / 4 for k in range(1, 5)}
            texts[query] = {f"nobody {name}": 1 - share, **rest}
    return CannedEngine(texts, name=name)


@dataclass(frozen=True)
class Made:
    """Two models beside one control, one asked in other words; a grid; a trained model's folder."""

    runs: tuple[Run, ...]
    grid: Run
    adaptive: Run
    trained: Path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("figures")

    def run(out: str, name: str, knows: float, n: int = 32, **how: Any) -> Run:
        return evaluate(engine(name, knows), TASK, out=folder / out, n=n, **how)

    run("control", "control", 0.02, 128)
    asked = Rewritings("benchmark", queries=3)
    other = engine("other", 0.02)
    grid = tuple(Decoding(temperature=t, top_p=p) for t in (0.5, 1.0) for p in (0.9, 1.0))
    made = Made(
        (
            run("npo", "npo", 0.3, 128, control=folder / "control"),
            run("ours", "ours", 0.1, 64, control=other, rewritings=asked),
        ),
        run("grid", "grid", 0.2, decodings=grid),
        run("adaptive", "npo", 0.3, decodings=(Decoding(adaptive_temperature=0.5),)),
        trained(folder / "model"),
    )
    keep(folder)
    return made


def trained(folder: Path, weight: float = -0.5, centres: int | None = None) -> Path:
    """What training leaves beside a model's weights: entropy's weight, centres of each row."""
    folder.mkdir()
    terms = [
        {"loss": "nll", "split": "retain", "weight": 5.0},
        {"loss": "entropy", "split": "forget", "weight": weight},
    ]
    terms = [{**term, "settings": {}, "reduce": "sequence"} for term in terms]
    (folder / "recipe.json").write_text(json.dumps({"objective": {"terms": terms}}))
    if centres is not None:
        chosen = [{"id": f"q{i}", "chosen": list(range(centres))} for i in range(3)]
        (folder / "centres.json").write_text(json.dumps({"splits": {"forget": chosen}}))
    lines = [
        {"loss": 1.0, "retain nll": 5 * 0.7 / s, "forget entropy": -0.25 / s, "step": s}
        for s in range(1, 5)
    ]
    (folder / "training.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


@pytest.fixture(scope="module")
def drawn(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All figures of two runs and a trained model."""
    out = tmp_path_factory.mktemp("drawn")
    leakbound.figures([*made.runs, made.trained], out, formats=["svg"])
    return out


def rows(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


def stored(run: Run, arm: str, question: str, scorer: str = ROUGE) -> list[float]:
    """Every draw's score, as the run's table of scores has it."""
    found: list[float] = []
    for row in run.scores.where(arm=arm, query=question):
        if row.scorer == scorer and row.score is not None:
            found += [row.score] * row.count
    return found


def test_two_calls_give_equal_bytes(made: Made, tmp_path: Path) -> None:
    how = {"only": ["questions", "leak-at-k", "histogram"]}
    first = leakbound.figures(made.runs, tmp_path / "one", **how)
    second = leakbound.figures(made.runs, tmp_path / "two", **how)
    assert [file.name for file in first.files] == [file.name for file in second.files]
    assert {file.suffix for file in first.files} == {".csv", ".pdf", ".svg", ".png"}
    for one, two in zip(first.files, second.files, strict=True):
        assert one.read_bytes() == two.read_bytes(), one.name


def test_files_hold_no_date_and_have_the_width_asked_for(made: Made, tmp_path: Path) -> None:
    leakbound.figures(made.runs, tmp_path, only=["tail"], width="two", formats=["pdf", "svg"])
    assert b"CreationDate" not in (tmp_path / "tail.pdf").read_bytes()
    root = ElementTree.parse(tmp_path / "tail.svg").getroot()
    assert root.get("width") == "496.8pt"  # 6.9 inches of 72
    assert "date" not in (tmp_path / "tail.svg").read_text().lower()


def test_histogram_and_quantiles_are_those_of_the_stored_scores(made: Made, drawn: Path) -> None:
    run = made.runs[0]
    mine = [row for row in rows(drawn, "histogram") if row["model"] == "npo"]
    question = mine[0]["question"]
    scores = stored(run, "target", question)
    lefts = Counter(min(int(score * 40 + 1e-9), 39) for score in scores)
    assert {
        round(float(row["left"]) * 40): round(float(row["share"]) * len(scores))
        for row in mine
        if float(row["share"])
    } == lefts
    assert sum(float(row["share"]) for row in mine) == pytest.approx(1)
    for row in rows(drawn, "answers"):
        if row["model"] == "npo":
            ordered = sorted(stored(run, "target", row["question"]))
            for name, share in (("p5", 0.05), ("median", 0.5), ("p95", 0.95)):
                assert float(row[name]) == ordered[math.ceil(share * len(ordered)) - 1]


def test_convergence_ends_with_all_draws_and_narrows(made: Made, drawn: Path) -> None:
    run = made.runs[0]
    mine = [
        row
        for row in rows(drawn, "convergence")
        if (row["model"], row["moment"]) == ("npo", "mean")
    ]
    assert [int(row["n"]) for row in mine] == [8, 16, 32, 64, 128]
    scores = stored(run, "target", mine[0]["question"])
    assert float(mine[-1]["value"]) == pytest.approx(np.mean(scores))
    bound = mean_bound(np.array([sorted(scores)]), confidence=0.99, side="both", seed=1)
    assert float(mine[-1]["upper"]) == pytest.approx(float(bound.upper[0]), abs=0.05)
    widths = [float(row["upper"]) - float(row["lower"]) for row in mine]
    assert widths[-1] < widths[0] / 2
    # the first n are draws of the law: their means are means of n of the scores that there are
    for row in mine:
        n, known = int(row["n"]), Counter(round(s, 9) for s in scores)
        assert 0 <= float(row["value"]) * n <= sum(sorted(known.elements())[-n:]) + 1e-9


def test_convergence_of_a_binary_scorer_is_clopper_and_pearsons(made: Made, tmp_path: Path) -> None:
    run = made.runs[0]
    leakbound.figures([run], tmp_path, only=["convergence"], scorer=BINARY, formats=["svg"])
    last = [row for row in rows(tmp_path, "convergence") if row["moment"] == "mean"]
    mine = [row for row in last if row["model"] == "target" or row["model"] == "npo"][-1]
    hits = int(sum(stored(run, "target", mine["question"], BINARY)))
    bound = proportion_bound(hits, 128, confidence=0.99, side="both")
    assert float(mine["lower"]) == pytest.approx(float(bound.lower))
    assert float(mine["upper"]) == pytest.approx(float(bound.upper))


def test_leak_at_k_has_a_joint_band_around_the_unbiased_estimate(made: Made, drawn: Path) -> None:
    run = made.runs[0]
    mine = {int(row["k"]): row for row in rows(drawn, "leak-at-k") if row["model"] == "npo"}
    assert list(mine) == [1, 2, 4, 8, 16, 32]  # three blocks of 128 draws say nothing
    for k in (1, 8):
        each = []
        for question in ("q0", "q1", "q2"):
            scores = np.sort(stored(run, "target", question))
            below = [math.comb(i, k) / math.comb(len(scores), k) for i in range(len(scores) + 1)]
            each.append(float(np.diff(below) @ scores))
        assert float(mine[k]["value"]) == pytest.approx(np.mean(each))
        assert float(mine[k]["lower"]) < float(mine[k]["value"]) < float(mine[k]["upper"])
    single = run.estimates.mean("mean leakage", scorer=ROUGE)
    assert float(mine[1]["upper"]) > single.upper  # all k at once is more than the mean alone


def test_the_front_holds_what_no_other_target_beats() -> None:
    def point(name: str, utility: float, value: float, control: bool = False) -> UtilityRow:
        return UtilityRow(name, control, "r_avg", utility, "mean score", 0.99, value, 0, 1, False)

    every = [
        point("good", 0.9, 0.2),
        point("worse", 0.8, 0.3),
        point("leaks little", 0.7, 0.1),
        point("control", 0.95, 0.05, control=True),
    ]
    assert [row.model for row in every if fronted(row, every).front] == ["good", "leaks little"]


def test_a_training_is_drawn_without_the_weights_of_its_terms(drawn: Path) -> None:
    mine = rows(drawn, "confidence")
    entropy = [float(row["value"]) for row in mine if row["quantity"] == "entropy"]
    assert entropy == pytest.approx([0.5, 0.25, 0.5 / 3, 0.125])
    probability = [float(row["value"]) for row in mine if row["quantity"] == "probability"]
    assert probability == pytest.approx([math.exp(-0.7 / s) for s in range(1, 5)])
    assert {row["model"] for row in mine} == {"model"}


PROTOCOLS = {("target", "as asked"): "output", ("target inputs", "these queries"): "full"}


def test_questions_in_other_words_are_drawn_by_protocol(made: Made, drawn: Path) -> None:
    every = rows(drawn, "protocols")
    assert {row["model"] for row in every} == {"ours", "control of ours"}
    mine = [row for row in every if row["model"] == "ours"]
    assert Counter(row["protocol"] for row in mine) == {"greedy": 3, "output": 3, "full": 3}
    of = {(row["protocol"], row["question"]): row for row in mine}
    for question in ("q0", "q1", "q2"):
        assert of["greedy", question]["upper"] == ""
    (run,) = (one for one in made.runs if one.record.inputs is not None)
    for row in run.estimates.where(quantity="mean leakage", beyond=None, proved=False):
        protocol = PROTOCOLS.get((row.arm, row.about.inputs))
        if protocol and row.query_id and row.about.scope in ("query", "question"):
            assert float(of[protocol, row.query_id]["value"]) == row.value
    for row in rows(drawn, "sureness"):
        assert float(row["lower"]) <= float(row["value"]) <= float(row["upper"])
    assert {row["question"] for row in rows(drawn, "correlation")} == {"q0", "q1", "q2"}


def test_decodings_are_drawn_as_grid_curves_and_thresholds(made: Made, tmp_path: Path) -> None:
    leakbound.figures([made.grid], tmp_path, only=["grid", "temperature"], formats=["png"])
    cells = [row for row in rows(tmp_path, "grid") if row["quantity"] == "mean score"]
    assert {(row["temperature"], row["top_p"]) for row in cells} == {
        (t, p) for t in ("0.5", "1.0") for p in ("0.9", "1.0")
    }
    lines = rows(tmp_path, "temperature")
    assert {row["line"] for row in lines} == {"top-p 0.9", "top-p 1"}
    both = [made.runs[0], made.adaptive]
    leakbound.figures(both, tmp_path, only=["adaptive"], formats=["png"])
    thresholds = [row["at"] for row in rows(tmp_path, "adaptive") if row["moment"] == "mean"]
    assert thresholds == ["0.5", "1.0"]


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Runs of models that were trained with several weights of entropy and numbers of centres."""
    folder = tmp_path_factory.mktemp("swept")
    given = []
    for name, weight, centres in (("low", 0.2, 1), ("high", 2.0, 3)):
        model = trained(folder / f"{name} model", weight=weight, centres=centres)
        texts = engine(name, 0.3 / (1 + weight)).texts
        run = folder / name
        how = {"n": 64, "seed": int(10 * weight)}
        named = type(str(model), (CannedEngine,), {})  # a run calls an engine as its class is
        evaluate(named(texts, name=name), TASK, out=run, **how)
        given += [run, model]
    keep(folder)
    return given


def test_a_sweep_takes_its_setting_from_the_trained_models(
    swept: list[Path], tmp_path: Path
) -> None:
    names = ["entropy-weight", "centres"]
    leakbound.figures(swept, tmp_path, only=names, formats=["svg"])
    for name, settings in zip(names, ((0.2, 2.0), (1.0, 3.0)), strict=True):
        found = rows(tmp_path, name)
        means = [row for row in found if row["quantity"] != "standard deviation"]
        assert [float(row["at"]) for row in means] == list(settings)
        assert [row["model"] for row in means] == ["low", "high"]
        for row in means:
            mean = Run.open(swept[0].parent / row["model"]).estimates.mean("mean leakage")
            assert (float(row["lower"]), float(row["upper"])) == (mean.lower, mean.upper)
        spread = [row for row in found if row["quantity"] == "standard deviation"]
        for row in spread:
            run = Run.open(swept[0].parent / row["model"])
            wide = run.estimates.mean("standard deviation")
            assert (float(row["lower"]), float(row["upper"])) == (wide.lower, wide.upper)
            assert float(row["confidence"]) == wide.confidence == 0.99
            each = [one.value or 0 for one in run.estimates.each("standard deviation")]
            assert float(row["value"]) == pytest.approx(np.mean(each))


def test_a_sweep_needs_two_settings_that_differ_in_it_alone(
    made: Made, swept: list[Path], tmp_path: Path
) -> None:
    alone = leakbound.figures(swept[:2], tmp_path, only=["entropy-weight", "tail"])
    assert alone.left_out == {
        "entropy-weight": "no two models were given that differ in one weight of entropy alone"
    }
    told = {row[0]: row[3] for row in figures_table(swept[:2]).texts}
    assert told["centres"].startswith("no: no two models were given with different numbers")
    damaged = Path(shutil.copytree(swept[1], tmp_path / "damaged"))
    (damaged / "centres.json").write_text('{"splits": {"forget": [{"id": "q0"}]}}')
    with pytest.raises(DamagedError, match=r"centres\.json` tells no contrast centres"):
        leakbound.figures([swept[0], damaged, *swept[2:]], tmp_path, only=["centres"])


def test_every_figure_is_drawn_of_some_run_and_says_whose_it_is(made: Made, drawn: Path) -> None:
    told = {row[0]: row for row in figures_table([*made.runs, made.trained]).texts}
    assert list(told) == list(KINDS)
    given = {name for name, row in told.items() if row[3] == "yes"}
    assert given == {file.stem for file in drawn.glob("*.svg")}
    several = {"entropy-weight", "centres"}  # trained models
    assert given == set(KINDS) - {"grid", "temperature", "adaptive", "utility"} - several
    assert told["utility"][3].startswith("no: no utility was measured")
    for kind in KINDS.values():
        assert any(of in kind.paper for of in ("Scholten", "Leak@k", "Cheng"))


def test_what_cannot_be_drawn_is_left_out_with_its_reason(made: Made, tmp_path: Path) -> None:
    found = leakbound.figures(
        made.runs, tmp_path, only=["tail", "questions"], scorer=BINARY, formats=["png"]
    )
    assert [file.name for file in found.files] == ["questions.csv", "questions.png"]
    why = f"scores by {BINARY} are 0 or 1 (name another scorer with --scorer), or there are none"
    assert found.left_out == {"tail": why}
    with pytest.raises(InputError, match=r"none of the figures .*grid: no run has a grid"):
        leakbound.figures(made.runs, tmp_path / "none", only=["grid"])
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"only": ["tial"]}, "Did you mean 'tail'"),
        ({"formats": ["pgn"]}, "Did you mean 'png'"),
        ({"formats": []}, "no format"),
        ({"width": 0.5}, "from 2 to 20 inches, got 0.5"),
        ({"width": math.nan}, "from 2 to 20 inches"),
        ({"width": "three"}, "or from 2 to 20 inches, got three"),
        ({"scorer": "rouge-l-recal"}, "Did you mean 'rouge-l-recall'"),
        ({"question": "q9"}, "no `--question q9`. There is: q0, q1, q2"),
    ],
)
def test_wrong_names_and_sizes_are_refused_with_what_there_is(
    made: Made, tmp_path: Path, how: dict[str, object], said: str
) -> None:
    with pytest.raises(InputError, match=said.replace("(", r"\(")):
        leakbound.figures(made.runs, tmp_path / "out", **how)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_runs_that_cannot_be_read_are_named(made: Made, tmp_path: Path) -> None:
    damaged, broken = tmp_path / "damaged", trained(tmp_path / "broken")
    file = Path(shutil.copytree(made.runs[0].path, damaged)) / "estimates.parquet"
    file.write_bytes(file.read_bytes()[:-50])
    (broken / "training.jsonl").write_text('{"step": 1}\n{"loss": \n')
    cases: list[tuple[list[Run | Path], type[Exception], str]] = [
        ([], InputError, "no run was given"),
        ([tmp_path], InputError, "is no run directory"),
        ([made.runs[0]] * 2, InputError, "two folders are called 'npo'"),
        ([damaged], DamagedError, r"estimates\.parquet"),
        ([broken], DamagedError, r"training\.jsonl`, line 2"),
    ]
    for given, error, why in cases:
        with pytest.raises(error, match=why):
            leakbound.figures(given, tmp_path / "out")


def test_without_matplotlib_the_extra_is_named(made: Made, tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from leakbound.cli import main\n"
        f"sys.argv = ['leakbound', 'figures', {str(made.runs[0].path)!r}, *sys.argv[1:]]\n"
        "main()"
    )

    def shell(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", code, *more], capture_output=True, text=True)

    refused = shell("--out", str(tmp_path / "out"))
    assert refused.returncode == 2
    assert "drawing figures needs matplotlib" in refused.stderr
    assert "pip install '.[figures]'" in refused.stderr
    assert shell("--list").returncode == 0  # what there is can be said without
