"""Results of arms: independent draws, missing scores, and the excess over a control.

Differences are used only if the records show that the arms share no draws.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest

from canned import CannedEngine, benchmark_of
from contents import completions, counts, rows
from leakbound import stats
from leakbound.benchmarks import Benchmark
from leakbound.bounding.comparisons import share_nothing
from leakbound.bounding.evidence import drawn_of
from leakbound.evaluation import bound, bound_run, evaluate, sample, score_run, summary
from leakbound.scorers import make_scorer
from leakbound.scoring.score import slug
from leakbound.store import Estimates, ImportedDraws, Run
from leakbound.study import Until
from leakbound.testing import FakeScorer
from leakbound.text.shown import many
from leakbound.types import Decoding
from suites import slow_but

IDS = ("p0", "p1", "p2")
TEXTS = {"the secret": 0.3, "no": 0.4, "what?": 0.3}
LEAKS = {"p0": 0.6, "p1": 0.1, "p2": 0.0}
BASE = 0.05
DIFFERENCES = "betting on differences"
BY_THEMSELVES = "Clopper-Pearson"
HOW: dict[str, Any] = {"n": 64, "scorers": ["keyword"]}


def benchmark(ids: Sequence[str] = IDS) -> Benchmark:
    return benchmark_of(ids, keywords=("secret",), name="b")


def unsure(name: str = "canned") -> CannedEngine:
    """An output that cannot be judged, in 3 of 10 draws."""
    return CannedEngine(dict.fromkeys(IDS, TEXTS), name=name)


def leaking(name: str, leaks: dict[str, float] | None = None) -> CannedEngine:
    laws = {i: {"the secret": p, "no": 1 - p} for i, p in (leaks or LEAKS).items()}
    return CannedEngine(laws, name=name)


def clean(name: str = "c") -> CannedEngine:
    return leaking(name, dict.fromkeys(IDS, BASE))


def run_of(out: Path, engine: Any = None, **how: Any) -> Run:
    return evaluate(engine or leaking("m"), benchmark(), out=out, **HOW | how)


def drawn(run: Run, arm: str = "target") -> Counter[Any]:
    return counts(run.arms[arm], "query_id", "chunk", "answer")


def test_arms_seeds_and_controls_share_no_draws(tmp_path: Path) -> None:
    cells = [Decoding(temperature=t, max_new_tokens=8) for t in (0.5, 1.0)]
    settings: dict[str, Any] = {"n": 1024, "decodings": cells, "control": unsure("control")}
    first = sample(unsure(), benchmark(), out=tmp_path / "a", **settings)
    other = sample(unsure(), benchmark(), out=tmp_path / "b", seed=1, **settings)
    names = [f"{base} T={t}" for base in ("target", "control") for t in ("0.5", "1")]
    every = [drawn(run, name) for run in (first, other) for name in names]
    assert all(a != b for i, a in enumerate(every) for b in every[:i])


def test_a_certain_output_is_drawn_once(tmp_path: Path) -> None:
    only = Decoding(top_k=1, max_new_tokens=8)
    run = sample(unsure(), benchmark(), out=tmp_path / "r", n=64, decodings=only)
    assert run.arms["target"].plan.n == 1


def undecided(binary: bool = True) -> FakeScorer:
    """Score 1 for the secret, 0 for a no, and nothing for any other text."""
    scores = {"the secret": 1.0, "no": 0.0}
    return FakeScorer(scores, otherwise=None, binary=binary, name="undecided")


def bounded(run: Run, scorer: Any) -> Estimates:
    score_run(run, [scorer])
    bound_run(run, [scorer])
    return run.estimates.where(arm="target")


@pytest.mark.parametrize("binary", [True, False])
def test_draws_without_a_score_count_against_every_claim(binary: bool, tmp_path: Path) -> None:
    run = sample(unsure(), benchmark(), out=tmp_path / "r", n=64, control=unsure("c"))
    got = bounded(run, undecided(binary))
    shown, base = drawn(run), drawn(run, "control")
    leaked, open_ = shown["p0", 0, "the secret"] / 64, shown["p0", 0, "what?"]
    assert open_ > 0
    leak = got.where(quantity="leak probability" if binary else "mean leakage", proved=False)
    (row,) = leak.where(query_id="p0", beyond=None)
    assert (row.n, row.missing) == (64, open_)
    assert row.lower <= leaked
    assert row.upper >= leaked + open_ / 64
    (excess,) = leak.where(query_id="p0", beyond="control", family="questions")
    sure, doubt = (base["p0", 0, text] / 64 for text in ("the secret", "what?"))
    assert excess.missing == open_ + 64 * doubt
    assert excess.upper > leaked + open_ / 64 - sure
    assert excess.lower < leaked - (sure + doubt)
    about = leak.where(scope=("mean", "worst question"), beyond=None)
    assert all(r.upper >= leaked for r in about)


def test_a_greedy_answer_is_one_exact_score_or_unknown(tmp_path: Path) -> None:
    odd = CannedEngine({key: {"what?": 1.0} for key in IDS})
    run = sample(odd, benchmark(), out=tmp_path / "r", n=4)
    scorers = [undecided(), make_scorer("keyword")]
    score_run(run, scorers)
    bound_run(run, scorers)
    greedy = run.estimates.where(arm="greedy")
    unknown, exact = (greedy.where(scorer=scorer.name) for scorer in scorers)
    assert [(r.lower, r.upper, r.missing) for r in unknown] == [(0.0, 1.0, 1)] * 3
    ends = [(r.quantity, r.n, r.method, r.lower, r.value, r.upper) for r in exact]
    assert ends == [("greedy score", 1, "exact", 0, 0, 0)] * 3


@pytest.mark.parametrize(
    ("questions", "single", "largest"), [(1, {32}, 32), (7, {32}, 128), (8, {32, 256}, 128)]
)
def test_leak_at_k_needs_eight_blocks(
    tmp_path: Path, questions: int, single: set[int], largest: int
) -> None:
    ids = [f"q{i}" for i in range(questions)]
    engine = CannedEngine({key: {"the secret": 0.5, "secret too": 0.5} for key in ids})
    run = evaluate(engine, benchmark(ids), out=tmp_path / "r", n=256)
    means = run.estimates.where(query_id=None, quantity="leak@k")
    alone, band = means.matching(family="single"), means.matching(family="leak@k")
    assert {row.parameter for row in alone} == single
    assert all(row.lower > 0.5 for row in alone)
    sizes = [2**i for i in range(largest.bit_length())]
    target = drawn_of(run.arms["target"], make_scorer("keyword"))
    joint = stats.bound(target.evidence, stats.leak_at(sizes).mean(), seed=target.keys)
    ends = zip(sizes, joint.lower.tolist(), joint.upper.tolist(), strict=True)
    assert [(row.parameter, row.lower, row.upper) for row in band] == [*ends]
    assert all(row.about.jointly and row.confidence == 0.99 for row in band)
    note = "\n".join(table.note for table in summary(run))
    leaked = f"{questions} of {many(questions, 'question')}"
    assert f"at least one of 256 draws leaked at {leaked}" in note
    assert ("leak@256" in note) == (256 in single)


def excesses(run: Run) -> dict[str | None, dict[str, Any]]:
    """Return the excess per question; under None their mean, and under "worst" the largest."""
    return {
        "worst" if row.scope == "worst question" else row.query_id: row
        for row in rows(run, arm="target", beyond="control", family=("single", "excess"))
        if row.scope != "count"
    }


def methods(run: Run) -> set[str]:
    return {row.method for row in excesses(run).values()}


def test_a_control_drawn_with_the_target_is_bet_against(tmp_path: Path) -> None:
    run = run_of(tmp_path / "r", control=clean())
    got = excesses(run)
    assert methods(run) == {DIFFERENCES, f"{DIFFERENCES}, in rounds"}
    assert set(got) == {*IDS, None, "worst"}
    scorer = make_scorer("keyword")
    target, control = (drawn_of(run.arms[name], scorer) for name in ("target", "control"))
    pair = stats.Pair(target.draws, control.draws)
    on_average = stats.LEAKAGE.mean()
    each, mean = (
        stats.bound(pair, quantity, seed=target.keys) for quantity in (stats.LEAKAGE, on_average)
    )
    how: dict[str, Any] = {"side": "lower", "seed": target.keys}
    below = stats.bound(pair, confidence=1 - 0.005, **how)
    for i, query_id in enumerate(IDS):
        row = got[query_id]
        assert (row.lower, row.upper) == (below.lower[i], each.upper[i])  # type: ignore[index]
        assert (row.quantity, row.confidence) == ("leak probability", 0.99)
        assert row.lower <= LEAKS[query_id] - BASE <= row.upper
    least = stats.bound(pair, on_average, confidence=1 - 0.0025, **how)
    assert got[None].lower == pytest.approx(least.lower, abs=1e-12)
    assert got[None].upper == mean.upper
    assert got[None].target == "the mean over these questions under this decoding, " + BEYOND
    assert got["worst"].target.startswith("the worst of these questions")
    assert got["worst"].upper == max(each.upper)  # type: ignore[arg-type]
    assert 0 < got["worst"].lower < max(each.lower)  # type: ignore[arg-type]


BEYOND = "relative to the control"


def test_no_question_that_equals_the_control_is_picked_jointly(tmp_path: Path) -> None:
    """Individually, about three of sixty identical ones are picked at 90 %."""
    ids = [f"q{i}" for i in range(60)]
    model, control = (leaking(name, dict.fromkeys(ids, 0.3)) for name in "mc")
    how = {"n": 32, "confidence": 0.9, "seed": 3}
    run = evaluate(model, benchmark(ids), out=tmp_path / "r", control=control, **how)
    singly = [
        row for row in rows(run, beyond="control", family="single", scope="query") if row.lower > 0
    ]
    jointly = rows(run, beyond="control", family="questions", scope="query")
    assert len(jointly) == 60
    assert singly
    assert not any(row.lower > 0 for row in jointly)


@pytest.mark.parametrize(
    ("named", "seed"), slow_but([(True, 0), (False, 0)],
                                [(named, seed) for named in (True, False) for seed in (0, 1)]),
)  # fmt: skip
def test_a_finished_control_may_share_random_numbers(
    named: bool, seed: int, tmp_path: Path
) -> None:
    with nullcontext() if named else patch("leakbound.store.arm.which_model", return_value=None):
        theirs = run_of(tmp_path / "c", clean(), seed=seed)
        run = run_of(tmp_path / "r", control=theirs.path)
        assert completions(run.arms["control"]) == completions(theirs.arms["target"])
        apart = named or bool(seed)
        shown = DIFFERENCES if apart else BY_THEMSELVES
        assert all(method.startswith(shown) for method in methods(run))
        target, other = run.arms["target"], run.arms["control"]
        printed = ("score:target:m", "score:target:c") if named else ("score:target",) * 2
        assert (target.purpose, other.purpose) == printed
        assert share_nothing([target], [other]) == apart


def test_of_draws_from_elsewhere_nothing_is_known(tmp_path: Path) -> None:
    run = run_of(tmp_path / "r", control=clean())
    target, control = run.arms["target"], run.arms["control"]
    assert share_nothing([target], [control])
    assert not share_nothing([target], [target])
    assert not share_nothing([target, control], [control])
    elsewhere = ImportedDraws(order=1, sampled_by="another tool")
    for changed in ({"draws": elsewhere}, {"seed": None}):
        control.spec = replace(control.spec, **changed)
        assert not share_nothing([target], [control])
        control = run.arms["control"]


@pytest.mark.slow
def test_few_draws_and_stopped_ones_use_no_differences(tmp_path: Path) -> None:
    few = run_of(tmp_path / "f", n=31, control=clean())
    apart = (BY_THEMSELVES, "stratified Fisher test")
    assert all(method.startswith(apart) for method in methods(few))
    name = slug(make_scorer("keyword"))
    arms = (few.arms[model].scores(name, binary=True) for model in ("target", "control"))
    wanted = stats.excess(*(stats.bound(rows, confidence=0.995, side="both") for rows in arms))
    for i, query_id in enumerate(IDS):
        row = excesses(few)[query_id]
        assert row.lower == pytest.approx(wanted.lower[i], abs=1e-12)  # type: ignore[index]
        assert row.upper == pytest.approx(wanted.upper[i], abs=1e-12)  # type: ignore[index]
    stops: dict[str, Any] = {"sampling": Until("p<=0.2", 64), "scorers": ["keyword"]}
    until = evaluate(leaking("m"), benchmark(), out=tmp_path / "u", control=clean(), **stops)
    assert not any(DIFFERENCES in method for method in methods(until))


@pytest.mark.thorough
def test_every_file_of_scores_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = benchmark_of(IDS, answer="the secret", scorers=("contains", "rouge-l-recall"))
    run = evaluate(leaking("m"), task, out=tmp_path / "r", control=clean(), n=32)
    copy = Path(shutil.copytree(run.path, tmp_path / "copy"))  # a copy that is not in memory
    (copy / "estimates.parquet").unlink()
    read: Counter[Path] = Counter()

    class Counted(pq.ParquetFile):
        def __init__(self, path: Path) -> None:
            super().__init__(path)
            self.path = path

        def read(self) -> Any:
            read[self.path] += 1
            return super().read()

    monkeypatch.setattr(pq, "ParquetFile", Counted)
    bound(Run.open(copy))
    files = [path for path in read if path.parent.name == "scores"]
    assert len(files) == 8
    assert {read[path] for path in files} == {1}
