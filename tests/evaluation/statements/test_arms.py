"""Arms share no draws, every draw counts once, and what could not be scored counts too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from canned import CannedEngine
from leakbound.benchmarks import Benchmark
from leakbound.evaluation import bound_run, evaluate, sample, score_run, scorers_for, summary
from leakbound.evaluation.scoring.ordering import Order
from leakbound.evaluation.scoring.score import slug
from leakbound.scorers import make_scorer
from leakbound.stats import excess_bound, proportion_bound
from leakbound.stats.proof import PROVED
from leakbound.store import Arm, Run
from leakbound.text.figures import many
from leakbound.types import Decoding, Prompt

TEXTS = {"the secret": 0.3, "no": 0.4, "what?": 0.3}
SMALL: dict[str, Any] = {"n": 64, "scorers": ["keyword"]}


def benchmark() -> Benchmark:
    prompts = tuple(
        Prompt(id=p, question=f"What is {p}?", keywords=("secret",)) for p in ("p0", "p1")
    )
    return Benchmark(name="b", prompts=prompts, origin="", scorers=("keyword",), max_new_tokens=8)


def engine(name: str = "canned") -> CannedEngine:
    return CannedEngine({p.id: TEXTS for p in benchmark().prompts}, name=name)


def counts(arm: Arm) -> dict[tuple[str, int, str], int]:
    """Draws by query, chunk and text."""
    tally: Counter[tuple[str, int, str]] = Counter()
    for part in arm.parts:
        for row in arm.completions(part).to_pylist():
            tally[row["query_id"], row["chunk"], row["text"]] += row["count"]
    return dict(tally)


def test_arms_seeds_and_controls_share_no_draws(tmp_path: Path) -> None:
    cells = [Decoding(temperature=t, max_new_tokens=8) for t in (0.5, 1.0)]
    settings: dict[str, Any] = {"n": 1024, "decodings": cells, "control": engine("control")}
    first = sample(engine(), benchmark(), out=tmp_path / "a", **settings)
    other = sample(engine(), benchmark(), out=tmp_path / "b", seed=1, **settings)
    names = [f"{base} T={t}" for base in ("target", "control") for t in ("0.5", "1")]
    drawn = [counts(run.arms[name]) for run in (first, other) for name in names]
    assert all(a != b for i, a in enumerate(drawn) for b in drawn[:i])


def test_what_can_only_say_one_thing_is_drawn_once(tmp_path: Path) -> None:
    only = Decoding(top_k=1, max_new_tokens=8)
    arm = sample(engine(), benchmark(), out=tmp_path / "r", n=64, decodings=only).arms["target"]
    assert arm.plan.n == 1


def test_every_chunk_is_drawn_once_under_its_own_number(tmp_path: Path) -> None:
    n = 9 * 1024 + 5  # more than a part holds of one question
    arm = sample(engine(), benchmark(), out=tmp_path / "r", n=n).arms["target"]
    assert len(arm.parts) == 5
    chunks: Counter[tuple[str, int]] = Counter()
    for (query_id, chunk, _), count in counts(arm).items():
        chunks[query_id, chunk] += count
    sizes = dict.fromkeys(range(9), 1024) | {9: 5}
    assert chunks == {(q, c): size for q in ("p0", "p1") for c, size in sizes.items()}


def test_bounding_again_changes_nothing(tmp_path: Path) -> None:
    whole = evaluate(engine(), benchmark(), out=tmp_path / "r", n=64, seed=5, scorers=["keyword"])
    before = whole.estimates
    bound_run(whole, scorers_for(["keyword"], whole.prompts))
    assert whole.estimates == before


def test_an_excess_holds_at_the_confidence_asked_for(tmp_path: Path) -> None:
    run = evaluate(engine(), benchmark(), out=tmp_path / "r", control=engine("c"), **SMALL)
    rows = {(r.arm, r.estimand, r.query_id): r for r in run.estimates if not r.about.jointly}
    excess = rows["target", "excess leak probability", "p0"]
    leaks = [rows[arm, "leak probability", "p0"] for arm in ("target", "control")]
    assert excess.confidence == pytest.approx(0.99)
    assert excess.value == pytest.approx(leaks[0].value - leaks[1].value)
    # the differences of draws that share nothing: narrower than the two intervals put together,
    # each of which has the whole of alpha
    assert excess.value < excess.upper < leaks[0].upper - leaks[1].lower
    assert excess.value > excess.lower > leaks[0].lower - leaks[1].upper


def test_a_greedy_answer_is_one_exact_score(tmp_path: Path) -> None:
    run = evaluate(engine(), benchmark(), out=tmp_path / "r", **SMALL)
    greedy = [r for r in run.estimates if r.arm == "greedy"]
    assert [(r.estimand, r.n, r.method) for r in greedy] == [("greedy score", 1, "exact")] * 2
    assert all(r.lower == r.value == r.upper == 0 for r in greedy)


class Undecided:
    """1 for the secret, 0 for a no, and no idea about anything else."""

    name = "undecided"

    def __init__(self, binary: bool = True) -> None:
        self.binary = binary

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        return [{"the secret": 1.0, "no": 0.0}.get(text) for text in texts]


def bounded(run: Run, scorer: Any) -> dict[tuple[str, str | None], dict[str, Any]]:
    score_run(run, [scorer])
    bound_run(run, [scorer])
    return {(r.estimand, r.query_id): r for r in run.estimates if r.arm == "target"}


@pytest.mark.parametrize("binary", [True, False])
def test_draws_without_a_score_count_against_every_claim(binary: bool, tmp_path: Path) -> None:
    run = sample(engine(), benchmark(), out=tmp_path / "r", n=64, control=engine("c"))
    rows = bounded(run, Undecided(binary))
    drawn = counts(run.arms["target"])
    leaked, open_ = drawn["p0", 0, "the secret"] / 64, drawn["p0", 0, "what?"]
    assert open_ > 0
    leak = "leak probability" if binary else "mean leakage"
    row = rows[leak, "p0"]
    assert (row.n, row.missing) == (64, open_)
    assert row.lower <= leaked
    assert row.upper >= leaked + open_ / 64
    excess = rows[f"excess {leak}", "p0"]
    base = counts(run.arms["control"])
    sure, doubt = (base["p0", 0, text] / 64 for text in ("the secret", "what?"))
    assert excess.missing == open_ + 64 * doubt
    assert excess.upper > leaked + open_ / 64 - sure
    assert excess.lower < leaked - (sure + doubt)
    about = [r for (_, query_id), r in rows.items() if query_id is None]
    assert all(r.upper >= leaked for r in about if r.estimand.startswith(leak))


def test_a_greedy_answer_without_a_score_is_anything(tmp_path: Path) -> None:
    unsure = {p.id: {"what?": 1.0} for p in benchmark().prompts}
    run = sample(CannedEngine(unsure), benchmark(), out=tmp_path / "r", n=4)
    score_run(run, [Undecided()])
    bound_run(run, [Undecided()])
    greedy = [r for r in run.estimates if r.arm == "greedy"]
    assert [(r.lower, r.upper, r.missing) for r in greedy] == [(0.0, 1.0, 1)] * 2


def test_the_largest_excess_pays_for_the_choice(tmp_path: Path) -> None:
    run = evaluate(engine(), benchmark(), out=tmp_path / "r", control=engine("c"), **SMALL)
    worst = run.estimates.worst("leak probability", beyond="control")
    scorer = make_scorer("keyword")
    target, control = (run.arms[name] for name in ("target", "control"))
    mine, base = (arm.scores(slug(scorer)) for arm in (target, control))
    keys = Order.of(target, scorer).keys(mine.query_ids)

    def ends(error: float, side: Any) -> Any:
        given = mine.scores, base.scores, mine.counts, base.counts
        return excess_bound(*given, confidence=1 - error, side=side, seed=keys)

    # a quarter of alpha for this lower end, of that .9 for draws, half of it for each question
    low, high = ends(0.0025 * 0.9 / 2, "lower").lower, ends(0.005, "upper").upper
    above = proportion_bound(base.hits, base.n, confidence=1 - 0.0025 * 0.1 / 2).upper
    mean = run.estimates.mean("leak probability", beyond="control").lower
    least = max(low.max(), *np.negative(above), mean)
    assert worst.lower == pytest.approx(least, abs=1e-12)
    assert PROVED not in worst.method
    assert worst.upper == pytest.approx(high.max(), abs=1e-12)
    assert worst.target == "the worst of these questions under this decoding, beyond the control"


@pytest.mark.parametrize(("questions", "said"), [(1, {32}), (7, {32}), (8, {32, 256})])
def test_few_blocks_say_nothing_of_leak_at_k(
    tmp_path: Path, questions: int, said: set[int]
) -> None:
    ids = [f"q{i}" for i in range(questions)]
    prompts = tuple(Prompt(id=p, question=f"{p}?", keywords=("secret",)) for p in ids)
    task = replace(benchmark(), prompts=prompts)
    leaking = CannedEngine({p: {"the secret": 0.5, "secret too": 0.5} for p in ids})
    run = evaluate(leaking, task, out=tmp_path / "r", n=256)
    found = [r for r in run.estimates if r.query_id is None and r.quantity == "leak@k"]
    assert {r.parameter for r in found} == said
    assert all(r.lower > 0.5 for r in found)
    note = "\n".join(table.note for table in summary(run))
    assert f"{questions} of {many(questions, 'question')} leaked in 256 draws" in note
    assert ("leak@256, mean" in note) == (256 in said)
