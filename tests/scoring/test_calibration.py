"""A judge that errs, from its calibration file to the estimates, the table and the report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from canned import CannedEngine, benchmark_of
from contents import PROBABILITY
from leakbound.benchmarks import Benchmark
from leakbound.errors import InputError
from leakbound.evaluation import bound_run, evaluate
from leakbound.scorers import make_scorer
from leakbound.scoring.calibration import calibrate, calibration_of, judge_of, read_items
from leakbound.scoring.ordering import order_of
from leakbound.stats import LEAKAGE, Rows, bound
from leakbound.stats.about import Quantity
from leakbound.store import EstimateRow, Run
from misbehaving import Answer, Body, Served, judge_server, says

LEAKS = {"q0": 0.0, "q1": 0.1, "q2": 0.5}
SPEC = "judge:model=openai:{url}#m"
LABELLED = [*[{"label": 1, "judge": 1}] * 190, *[{"label": 1, "judge": 0}] * 10]
LABELLED += [*[{"label": 0, "judge": 0}] * 294, *[{"label": 0, "judge": 1}] * 6]


@pytest.fixture(autouse=True)
def replies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "replies"))


def benchmark() -> Benchmark:
    wanted = {"question": "Who wrote {}?", "answer": "Quill wrote {}."}
    return benchmark_of(LEAKS, name="judged", scorers=(), **wanted)


def judged(out: Path, n: int = 64, **how: Any) -> tuple[Run, str, Served]:
    """Return a run with a served judge, the judge's spec, and the server."""
    with judge_server(verdict) as served:
        spec = SPEC.format(url=served.url)
        run = evaluate(engine(), benchmark(), out=out, n=n, scorers=[spec], **how)
    return run, spec, served


def engine() -> CannedEngine:
    return CannedEngine(
        {q: {"It was Quill.": p, "It was Ann.": 0.9 - p, "Odd.": 0.1} for q, p in LEAKS.items()}
    )


def verdict(body: Body, _: int) -> Answer:
    """Leak if the true author is named; no verdict if the output is odd."""
    output = body["messages"][1]["content"].partition("OUTPUT\n")[2]
    if output.startswith("Odd"):
        return says(None)
    return says(json.dumps({"leak": output.startswith("It was Quill")}))


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def rows(run: Run, quantity: Quantity, arm: str = "target") -> dict[str | None, EstimateRow]:
    mine = run.estimates.where(arm=arm, **PROBABILITY | {"quantity": quantity})
    return {r.query_id: r for r in mine}


def test_the_judge_errors_are_carried_into_the_bound(tmp_path: Path) -> None:
    """Each bound by the formula, from the three proportions at a sixth of alpha each."""
    file = written(tmp_path / "labelled.jsonl", LABELLED)
    run, judge, served = judged(tmp_path / "r", 400, calibration=file)
    wanted = 3 + 8  # reference answers; three outputs per question, one of which never arrived
    assert len(served.queried) == wanted
    how: dict[str, Any] = {"confidence": 1 - 0.01 / 6}
    true, false = (
        [bound(Rows.of_hits(*tally), side=side, **how) for side in ("lower", "upper")]
        for tally in ((190, 200), (6, 300))
    )
    corrected, seen = rows(run, "corrected leak probability"), rows(run, "leak probability")
    assert set(corrected) == {*LEAKS, None}
    tallies = {}
    for q in LEAKS:
        row = seen[q]
        hits, n, missing = round(row.value * (row.n - row.missing)), 400, row.missing
        tallies[q] = (hits, n, missing)
        up = bound(Rows.of_hits(hits, n, missing), side="upper", **how).upper
        low = bound(Rows.of_hits(hits, n, missing), side="lower", **how).lower
        want_up = (up - false[0].lower) / (true[0].lower - false[0].lower)
        want_low = (low - false[1].upper) / (true[1].upper - false[1].upper)
        assert corrected[q].upper == pytest.approx(min(want_up, 1), abs=1e-12)
        assert corrected[q].lower == pytest.approx(max(want_low, 0), abs=1e-12)
        assert corrected[q].missing == missing
        assert missing > 10
    hits, n, missing = ([tally[i] for tally in tallies.values()] for i in range(3))
    order = order_of(run.arms["target"], make_scorer(judge))([*LEAKS])
    how |= {"seed": order, "side": "upper"}
    mean = bound(Rows.of_hits(hits, n, missing), LEAKAGE.mean(), **how).upper
    want = (mean - false[0].lower) / (true[0].lower - false[0].lower)
    assert corrected[None].upper == pytest.approx(want, abs=1e-12)
    assert corrected[None].confidence == 0.99
    assert "the mean over these questions" in corrected[None].target


def test_counts_stay_with_the_run_and_another_file_replaces_them(tmp_path: Path) -> None:
    file = written(tmp_path / "labelled.jsonl", LABELLED)
    run, spec, _ = judged(tmp_path / "r")
    judge = make_scorer(spec)
    assert not rows(run, "corrected leak probability")
    assert calibration_of(run, judge) is None
    calibrate(run, judge, file)
    bound_run(run, [judge])
    first = rows(run, "corrected leak probability")
    bound_run(Run.open(run.path), [judge], confidence=0.9)
    assert rows(run, "corrected leak probability")[None].upper < first[None].upper
    calibrate(run, judge, written(file, LABELLED[150:-150]))
    bound_run(run, [judge])
    assert rows(run, "corrected leak probability")[None].upper > first[None].upper
    (kept,) = (run.path / "calibration").iterdir()
    kept.write_text("{}")
    with pytest.raises(InputError, match="was changed"):
        calibration_of(run, judge)


def test_items_without_a_verdict_are_judged(tmp_path: Path) -> None:
    texts = {"It was Quill.": 1, "It was Quill, or not.": 0, "It was Ann.": 0, "Odd.": 1}
    items = [
        {"label": label, "question": "Who wrote q1?", "answer": "Quill.", "output": output}
        for output, label in texts.items()
    ]
    file = written(tmp_path / "labelled.jsonl", [*items, {"label": 1, "judge": None}])
    run, spec, _ = judged(tmp_path / "r", 16, calibration=file)
    got = calibration_of(run, make_scorer(spec))
    assert got is not None
    assert (got.positives, got.negatives, got.undecided) == ((1, 1), (1, 2), 2)


def test_a_csv_file_will_do(tmp_path: Path) -> None:
    file = tmp_path / "labelled.csv"
    file.write_text("label,judge\n1,1\n0,\n0,true\n")
    assert [(item.label, item.judged) for item in read_items(file)] == [(1, 1), (0, None), (0, 1)]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "label,judge\n1,1\n", r"no item with label 0 \(no leak\)"),
        ("a.csv", "label,judge\n1,1\n2,1\n", "'label' must be 0 or 1, got '2' in row 2"),
        ("a.jsonl", '{"label": 1, "output": "x"}', "row 1.*no 'question'"),
        ("a.txt", "", r"\.csv, \.jsonl"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, name: str, text: str | None, message: str) -> None:
    file = tmp_path / name
    if text is not None:
        file.write_text(text)
    nobody = ["judge:model=openai:http://127.0.0.1:1/v1#m"]
    with pytest.raises(InputError, match=message):
        evaluate(engine(), benchmark(), out=tmp_path / "r", scorers=nobody, calibration=file)
    assert not (tmp_path / "r").exists()


def test_a_judge_that_decides_nothing_cannot_be_calibrated(tmp_path: Path) -> None:
    file = written(tmp_path / "a.jsonl", [{"label": 1, "judge": None}, {"label": 0, "judge": 0}])
    with pytest.raises(InputError, match="decided no item with label 0, or no"):
        calibrate(SimpleNamespace(path=tmp_path), make_scorer("judge:model=m"), file)  # type: ignore[arg-type]


JUDGE, GRADED, CUT, KEYWORD, SOFT, SOFT_CUT = map(
    make_scorer,
    ("judge:model=m", "judge:model=m,rubric=wmdp", "judge:model=m,rubric=wmdp>=0.5", "keyword",
     "rouge-l-recall", "rouge-l-recall>=0.9"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("scorers", "wanted"),
    [
        ([KEYWORD, JUDGE, GRADED], JUDGE),
        ([KEYWORD, CUT], CUT),
        ([SOFT_CUT], SOFT_CUT),
        ([GRADED], "judge"),
        ([JUDGE, CUT], "judge"),
        ([SOFT], "scorer"),
    ],
)
def test_a_calibration_is_about_one_binary_judge_or_scorer(scorers: list[Any], wanted: Any) -> None:
    if not isinstance(wanted, str):
        assert judge_of(scorers) == wanted
        return
    with pytest.raises(InputError, match=f"one binary {wanted}, got"):
        judge_of(scorers)


@pytest.mark.slow
def test_a_scorer_reads_the_labelled_outputs_itself(tmp_path: Path) -> None:
    """A judge's verdicts in the file differ from another scorer's."""
    scorer = "keyword:require=all"
    made = [
        (1, "It was Ann Quill.", 20),  # detected
        (1, "Quill, Ann.", 20),
        (1, "A. Quill.", 10),  # missed
        (0, "It was Bob.", 47),
        (0, "Ann and Quill deny it.", 3),  # false alarm
    ]
    items = [
        {"label": label, "judge": 1 - label, "question": "Who wrote q1?", "answer": "Ann Quill.",
         "keywords": "Ann; Quill", "output": output}
        for label, output, times in made for _ in range(times)
    ]  # fmt: skip
    file = written(tmp_path / "labelled.jsonl", items)
    task = replace(
        benchmark(), prompts=tuple(replace(p, keywords=("Quill",)) for p in benchmark().prompts)
    )
    how: dict[str, Any] = {"scorers": ["rouge-l-recall", scorer], "calibration": file}
    run = evaluate(engine(), task, out=tmp_path / "r", n=400, **how)
    got = calibration_of(run, make_scorer(scorer))
    assert got is not None
    assert (got.positives, got.negatives, got.undecided) == ((40, 50), (3, 50), 0)
    for q, row in rows(run, "corrected leak probability").items():
        assert row.lower <= (LEAKS[q] if q else 0.2) <= row.upper
    assert calibration_of(run, make_scorer("rouge-l-recall")) is None
    seen = written(tmp_path / "told.jsonl", LABELLED)
    with pytest.raises(InputError, match=r"row 1.*no 'question'"):
        evaluate(engine(), task, out=tmp_path / "s", n=8, **{**how, "calibration": seen})
    without = written(tmp_path / "less.jsonl", [{**item, "keywords": ""} for item in items])
    with pytest.raises(InputError, match=r"keyword.*needs keywords"):
        evaluate(engine(), task, out=tmp_path / "s", n=8, **{**how, "calibration": without})
    assert not (tmp_path / "s").exists()
