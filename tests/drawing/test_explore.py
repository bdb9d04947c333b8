"""Exploring an arm: known distributions, early refusals, and results that are not lost."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from canned import CannedEngine
from contents import EXCESS, PROBABILITY, completions, contents, counts, rows
from exploring import DECODING, EXACT, HYBRID, LAWS, LEAKS, ExploringEngine, benchmark
from leakbound.bounding.evidence import drawn_of
from leakbound.drawing.plans import Evaluation
from leakbound.drawing.study import draw_study
from leakbound.errors import IncompleteError, InputError
from leakbound.evaluation import evaluate, prepared, probe
from leakbound.planning.plan import Prepared
from leakbound.scorers import make_scorer, score_texts
from leakbound.scorers.rouge import RougeLRecall
from leakbound.scoring.ordering import BY_QUESTION
from leakbound.scoring.score import score_arm
from leakbound.store import ExploredDraws, Run
from leakbound.study import Explore, Study
from leakbound.testing import FakeScorer
from leakbound.types import Decoding, ExploreMode, Prompt, Query, Scorer


def explored(out: Path, engine: Any = None, task: Any = None, **how: Any) -> Run:
    """Return a run with masses and draws, by default of the known distributions."""
    made = engine or ExploringEngine()
    return evaluate(
        made, task or benchmark(), out=out, **(how if "n" in how else {**HYBRID, **how})
    )


def moments(scorer: str, k: int) -> dict[str, tuple[float, float]]:
    """Return the true mean score, and the expected largest of k, of each distribution."""
    chosen, got = make_scorer(scorer), {}
    for q, law in LAWS.items():
        scores = score_texts(chosen, list(law), Prompt(id=q, question="?", answer="Ann"))
        x, p = np.array(scores, float), np.array(list(law.values()))
        order = np.argsort(x)
        below = np.minimum(np.cumsum(p[order]), 1) ** k
        got[q] = (float(p @ x), float(np.diff(below, prepend=0) @ x[order]))
    return got


class Measured(ExploringEngine):
    """An engine that records the queries at which its margin was measured."""

    def measure(self, queries: Sequence[Query]) -> None:
        assert not self.queried
        self.measured = [query.id for query in queries]


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory: pytest.TempPathFactory) -> Run:
    engine = Measured()
    run = explored(tmp_path_factory.mktemp("explored") / "hybrid", engine)
    assert engine.measured == [query.id for query in run.queries]
    return run


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return explored(tmp_path_factory.mktemp("explored") / "exact", **EXACT)


@pytest.mark.parametrize(("how", "certain"), [(EXACT, 1.0), (HYBRID, 0.9)], ids=str)
def test_bounds_contain_the_truth(how: Mapping[str, Any], certain: float, tmp_path: Path) -> None:
    scorers = ["contains", "rouge-l-f1"]
    run = explored(tmp_path / "r", ExploringEngine(certain=certain), scorers=scorers, **how)
    leakage = {"arm": "target", "quantity": ("leak probability", "mean leakage")}
    for scorer in scorers:
        for q, (mean, largest) in moments(scorer, 8).items():
            mine: dict[str, Any] = {"scorer": scorer, "query_id": q, "proved": False}
            (one,) = rows(run, **mine, **leakage)
            assert one.lower - 1e-12 <= mean <= one.upper + 1e-12
            (over_k,) = rows(run, **mine, quantity="leak@k", parameter=8)
            assert over_k.lower - 1e-12 <= largest <= over_k.upper + 1e-12
        truth = np.mean([mean for mean, _ in moments(scorer, 8).values()])
        (mean,) = rows(run, scorer=scorer, scope="mean", proved=False, **leakage)
        assert mean.lower <= truth <= mean.upper


def test_fully_explored_questions_are_known_and_others_are_drawn(hybrid: Run, exact: Run) -> None:
    leak = {r.query_id: r for r in rows(hybrid, arm="target", **PROBABILITY)}
    whole = leak["whole"]
    assert whole.lower == pytest.approx(whole.upper) == pytest.approx(LEAKS["whole"])
    assert (whole.n, leak["part"].n, leak["none"].n) == (0, 200, 200)
    assert leak["rest"].upper - leak["rest"].lower < 0.1 * 0.6  # draws of a tenth
    target = hybrid.arms["target"]
    assert isinstance(target.spec.draws, ExploredDraws)
    assert target.spec.draws.scorer.name == "contains"
    assert target.masses.explored().remainder == pytest.approx(
        {"whole": 0, "part": 0.45, "rest": 0.1, "none": 1}
    )
    bounds = [r for r in rows(exact, arm="target") if r.query_id]
    assert {(r.n, r.confidence) for r in bounds} == {(0, 1.0)}


RECALL = RougeLRecall()
SCORES: dict[str, float | None] = {t: float("Ann" in t) for law in LAWS.values() for t in law}
UNSETTLED = FakeScorer(SCORES, name="unsettled")  # settles no prefix
UNDECIDED = FakeScorer(SCORES | {"No": None}, name="undecided")


def test_other_scorers_than_the_steering_one_have_wider_bounds(hybrid: Run, tmp_path: Path) -> None:
    copied = Run.open(shutil.copytree(hybrid.path, tmp_path / "r"))
    arm, got = copied.arms["target"], []
    for scorer in (RECALL, UNSETTLED, UNDECIDED):
        score_arm(arm, scorer)
        known = drawn_of(arm, scorer)
        alike = replace(known, order=BY_QUESTION)  # each scorer has its own order
        got.append(alike.leakage(confidence=0.99, side="both"))
    steered, other, undecided = got
    q = drawn_of(arm, RECALL).query_ids.index("part")
    for bound in got:
        assert bound.lower[q] <= LEAKS["part"] <= bound.upper[q]  # recall of "Ann" is 0 or 1
    assert other.lower[q] < steered.lower[q] + 1e-12
    assert other.upper[q] == pytest.approx(steered.upper[q])
    assert undecided.upper[q] == pytest.approx(other.upper[q] + 0.5)  # the mass of "No"
    assert undecided.lower[q] == other.lower[q]


REFUSED: Mapping[str, tuple[CannedEngine, Decoding, str]] = {
    "no probabilities": (CannedEngine(LAWS), DECODING, "CannedEngine returns no probabilities"),
    "half precision": (ExploringEngine(margin=float("inf")), DECODING, "--dtype float32"),
    "two passes": (
        ExploringEngine(),
        replace(DECODING, adaptive_temperature=0.9, adaptive_mode="two_pass"),
        "adaptive_mode 'running'",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_impossible_exploring_is_refused(name: str, tmp_path: Path) -> None:
    engine, decoding, shown = REFUSED[name]
    how: dict[str, Any] = {"decodings": decoding, "out": tmp_path / "r"}
    with pytest.raises(InputError, match=f"arm 'target' cannot be explored.*{shown}"):
        evaluate(engine, benchmark(), **how, **HYBRID)
    if decoding is DECODING:
        how["control"] = engine
        with pytest.raises(InputError, match="arm 'control' cannot be explored"):
            evaluate(ExploringEngine(), benchmark(), **how, **HYBRID)
    assert engine.queried == []
    assert not (tmp_path / "r" / "run.json").exists()


def steered(mode: ExploreMode, scorer: Scorer, prompt: Prompt, out: Path) -> Run:
    """The completions of a study of this question, with 50 forwards."""
    task = benchmark(prompts=(prompt,))
    study = Study(task, sampling=Explore(mode, 50)).resolved(task)
    return draw_study(Evaluation(Prepared(study, task, (scorer,)), ExploringEngine(), None, out))


@dataclass(frozen=True)
class Lying:
    """States that nothing leaks once a text begins with "It"; "It is Ann" does."""

    name: str = "lying"
    binary: bool = True

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        return [float("Ann" in text) for text in texts]

    def bounds(self, prefix: str, prompt: Prompt | str) -> tuple[float, float]:
        return (0.0, 0.0) if prefix.startswith("It") else (0.0, 1.0)


@pytest.mark.parametrize("query_id", ["whole", "none"])  # seen in an event, or in a draw
def test_a_scorer_whose_bounds_do_not_hold_is_refused(query_id: str, tmp_path: Path) -> None:
    prompt = Prompt(id=query_id, question="Who?", answer="Ann")
    with pytest.raises(InputError, match=r"'lying' gives \(0.0, 0.0\) for 'It.*1.0 for 'It is"):
        steered("hybrid", Lying(), prompt, tmp_path / "r")
    assert not list((tmp_path / "r").glob("arms/target/*/part-*"))


def test_undrawn_answers_are_stored(hybrid: Run, exact: Run, tmp_path: Path) -> None:
    """Forced answers have count 0. Impossible or drawn answers are not forced."""
    arm = exact.arms["target"]
    assert [(r["query_id"], r["answer"], r["count"]) for r in completions(arm)] == [
        ("part", "Ann", 0),
        ("rest", "Ann", 0),
    ]
    name = next((arm.folder / "scores").glob("*[0-9a-f].parquet")).stem
    assert not arm.scores(name, binary=True).n.any()
    answers = [r["count"] for r in completions(hybrid.arms["target"]) if r["answer"] == "Ann"]
    assert len(answers) == 2
    assert min(answers) > 0
    unanswered = Prompt(id="part", question="Who?")
    arm = steered("exact", make_scorer("refusal"), unanswered, tmp_path / "u").arms["target"]
    assert not completions(arm)


class Both(ExploringEngine):
    """Samples with token ids, as an engine with known probabilities does."""

    def generate(self, queries: Any, decoding: Any, draws: Any) -> Any:
        for got in super().generate(queries, decoding, draws):
            known = [self._completion(got.query, c.answer, c.count) for c in got.completions]
            yield replace(got, completions=tuple(known))


def test_a_sampled_arm_has_its_answers_too(tmp_path: Path) -> None:
    run = explored(tmp_path / "r", Both(), n=1, seed=2)
    answers = {r["query_id"]: r["count"] for r in completions(run.arms["target"])
               if r["answer"] == "Ann"}  # fmt: skip
    assert answers == {"part": 0, "rest": 0}
    assert set(counts(run.arms["greedy"], "answer")) == {"No"}


def test_failing_questions_are_named_and_redone(hybrid: Run, tmp_path: Path) -> None:
    with pytest.raises(IncompleteError, match=r"'rest'.*NaN"):
        explored(tmp_path / "r", Measured(broken=["rest"]))
    run = Run.open(tmp_path / "r")
    assert {r.query_id for r in rows(run, arm="target", proved=False)} == {"whole", "part", "none"}
    assert contents(explored(tmp_path / "r", Measured())) == contents(hybrid)


@pytest.mark.slow
def test_a_control_is_explored_and_may_come_from_a_finished_run(tmp_path: Path) -> None:
    laws = {q: {"No": 0.9, "Ann": 0.01, "Bob": 0.09} for q in LAWS}
    control = ExploringEngine(laws, {q: ["No"] for q in LAWS}, name="control")
    own = explored(tmp_path / "c", control).arms["target"]
    other = explored(tmp_path / "r", control=tmp_path / "c")
    copied = other.arms["control"]
    assert copied.spec.draws == own.spec.draws
    assert copied.masses.explored().remainder == own.masses.explored().remainder
    assert [*copied.masses.tables()] == [*own.masses.tables()]
    for run in (other, explored(tmp_path / "a", control=control)):
        excess = {r.query_id: r for r in rows(run, **EXCESS)}
        for q, leak in LEAKS.items():
            assert excess[q].lower <= leak - 0.01 <= excess[q].upper
        assert excess[None].lower <= np.mean(list(LEAKS.values())) - 0.01
    (tmp_path / "c" / "arms" / "target" / "masses" / "part-00000.parquet").unlink()
    with pytest.raises(InputError, match="is not finished"):
        explored(tmp_path / "u", control=tmp_path / "c")


def test_a_sampled_control_of_an_explored_arm(tmp_path: Path) -> None:
    evaluate(CannedEngine(LAWS, name="c"), benchmark(), out=tmp_path / "c", n=64)
    run = explored(tmp_path / "r", control=tmp_path / "c")
    for row in rows(run, **EXCESS):
        assert row.lower <= 0 <= row.upper


def test_a_greedy_cell_is_one_draw(tmp_path: Path) -> None:
    run = explored(tmp_path / "r", decodings=[replace(DECODING, temperature=0.0), DECODING])
    greedy = run.arms["target greedy"]
    assert (greedy.explored, greedy.usage.draws) == (False, 4)
    assert run.arms["target T=1"].explored


def test_a_probe_counts_forwards_and_stores_nothing() -> None:
    cells = (DECODING, replace(DECODING, temperature=0.5), replace(DECODING, temperature=0.0))
    ready = prepared(Study(benchmark(), sampling=Explore("auto", 1000), decodings=cells))
    cost = probe(ready, ExploringEngine())
    assert (cost.parts, cost.forwards, cost.draws) == (2, 2 * 4 * 1000, 2 * 4)
    assert cost.text().startswith(
        "4 questions, 3 decodings, 8,000 forward passes in 2 parts; about"
    )
    with pytest.raises(InputError, match="'target T=1' cannot be explored"):
        probe(ready, CannedEngine(LAWS))
