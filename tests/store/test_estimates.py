"""The tables of a run for Python: typed rows, selected by quantity, arm and target."""

from __future__ import annotations

import json
import shutil
import sys
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from canned import CannedEngine, benchmark_of
from leakbound.errors import IncompleteError, InputError
from leakbound.evaluation import evaluate
from leakbound.stats import joint
from leakbound.store import Run

N = 256


def engine(name: str = "m", leak: float = 0.4) -> CannedEngine:
    return CannedEngine({p: {"the secret": leak, "no": 1 - leak} for p in "ab"}, name=name)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    task = benchmark_of(
        "ab",
        question="{}?",
        answer="the secret",
        keywords=("secret",),
        name="b",
        scorers=("keyword", "contains"),
    )
    out = tmp_path_factory.mktemp("run") / "r"
    return evaluate(engine(), task, out=out, n=N, control=engine("c", 0.05))


def test_absent_or_ambiguous_statements_are_refused_with_choices(run: Run) -> None:
    got = run.estimates
    for find, says in (
        (partial(got.where, arm="targe"), r"'targe'. Did you mean 'target'\? .* are: con"),
        (partial(got.where, scop="mean"), "no field 'scop'. Did you mean 'scope'"),
        (partial(got.first, colour="red"), "no field 'colour'.* are: arm, beyond, c"),
        (partial(got.where, scope="worst"), "scope='worst'.* are: .*, worst question"),
        (partial(got.where, quantity="leak"), "quantity='leak'.* leak probability, "),
        (partial(got.where, quantity=("tail", "mean")), "quantity='mean'.* mean leakage, "),
        (partial(got.where, beyond="controls"), "beyond='controls'. Did you mean 'control'"),
        (partial(got.where, query_id=("c", None), quantity="effect"), "query_id='c'.*: a, b\\."),
        (partial(got.worst, "mean leakage"), "'mean leakage'.* about 'leak probability', arm='t"),
        (partial(got.mean, "leak probability", arm="nobody"), "arm 'nobody'.*arm='control'"),
        (partial(got.each, "leak@k"), "several statements.*`parameter`: 1, 2, 4"),
    ):
        with pytest.raises(InputError, match=says):
            find()
    assert not got.where(quantity="effect")
    assert got.where(scorer=("keyword", "contain"))


def test_statements_by_their_subject(run: Run) -> None:
    estimates = run.estimates
    worst, each = estimates.worst("leak probability"), estimates.each("leak probability")
    assert (worst.arm, worst.scorer, worst.query_id) == ("target", "keyword", None)
    assert worst.estimand == "leak probability, largest of 2"
    assert worst.target == "the worst of these questions under this decoding"
    assert [row.query_id for row in each] == ["a", "b"]
    assert worst.upper == max(row.upper for row in each)
    assert worst.lower < max(row.lower for row in each)  # corrected for the selection
    mean = estimates.mean("leak probability", arm="control", scorer="contains")
    got = mean.arm, mean.scorer, mean.about.scope, mean.n
    assert got == ("control", "contains", "mean", 2 * N)
    excess = estimates.worst("leak probability", beyond="control")
    assert 0 < excess.lower < excess.upper
    assert excess.about.beyond == "control"
    assert [row.parameter for row in estimates.each("leak@k", parameter=32)] == [32, 32]
    assert estimates.mean("leak@k", parameter=32).about.name == "leak@32"


def test_rows_are_chosen_by_any_field(run: Run) -> None:
    estimates = run.estimates
    mine = {"arm": "target", "scorer": "keyword", "query_id": "a"}
    got = [row for row in estimates if all(getattr(row, k) == v for k, v in mine.items())]
    assert list(estimates.where(**mine)) == got != []
    quantities = "leak probability", "standard deviation"
    both = estimates.where(quantity=quantities, beyond=None)
    assert {row.quantity for row in both} == set(quantities)
    beyond = {row.about.beyond for row in estimates.where(scope="worst question")}
    assert beyond == {None, "control"}
    assert not estimates.where(arm="target", scope="grid")
    assert estimates.scorers == ("keyword", "contains")


def test_rows_are_tables_for_other_tools(run: Run) -> None:
    row, table = run.estimates.worst("leak probability"), run.estimates.to_arrow()
    assert joint(row.estimate, confidence=0.99).estimates == (row.estimate,)
    plain = json.loads(json.dumps(row.to_dict()))
    wanted = {"scope": "worst question", "estimand": row.estimand, "over": 2}
    assert wanted.items() <= plain.items()
    assert table.num_rows == len(run.estimates)
    assert {"quantity", "scope", "beyond", "value", "lower", "upper"} <= set(table.column_names)
    assert table["jointly"].type == pa.bool_()
    assert Run.open(run.path).estimates == run.estimates


def test_completions_and_scores_are_tables_too(run: Run) -> None:
    mine = run.completions.where(arm="target", query="a")
    rows = list(mine)
    assert len(mine) == len(rows) == mine.to_arrow().num_rows
    assert {(row.arm, row.query_id) for row in rows} == {("target", "a")}
    assert sum(row.completion.count for row in rows) == N
    assert {row.completion.answer for row in rows} == {"the secret", "no"}
    scores = [s for s in run.scores.where(arm="target", query="a") if s.scorer == "keyword"]
    (leak,) = run.estimates.each("leak probability").where(query_id="a")
    assert sum(row.count for row in scores if row.score == 1) / N == leak.value
    assert run.scores.to_arrow().column_names == ["arm", "scorer", "query_id", "count", "score"]
    with pytest.raises(InputError, match=r"no arm 'x'.*target"):
        run.completions.where(arm="x")
    with pytest.raises(InputError, match=r"no arm has a query 'x'.*such as 'a'"):
        run.scores.where(query="x")


def test_unavailable_tables(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    copied = Run.open(shutil.copytree(run.path, tmp_path / "run"))
    next((copied.path / "arms" / "target" / "completions").iterdir()).unlink()
    for name in ("estimates", "completions", "scores"):
        with pytest.raises(InputError, match=r"`pip install pandas`.*`\.to_arrow\(\)`"):
            getattr(run, name).to_pandas()
        with pytest.raises(IncompleteError, match="is not finished"):
            getattr(copied, name)
