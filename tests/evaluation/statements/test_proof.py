"""Proofs of leakage: distinct outputs of known probability, each counted once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from canned import drawn_part
from exploring import (
    DECODING,
    EXACT,
    HYBRID,
    KNOWN,
    LAWS,
    LEAKS,
    ExploringEngine,
    benchmark,
    token_ids,
)
from leakbound.evaluation import evaluate
from leakbound.evaluation.drawing.queries import begin
from leakbound.evaluation.scoring.score import score_arm
from leakbound.evaluation.statements.proof import proved
from leakbound.evaluation.statements.rows import rows_of
from leakbound.scorers import make_scorer
from leakbound.store import TARGET, Arm, ArmSpec, ExploredDraws, Plan, ScorerRecord
from leakbound.types import Completion, Decoding, Event, Exploration, Failure, Prompt, Sample

FAR = 1048576


def proofs(arm: Arm, scorer: str = "contains") -> dict[tuple[str, str, float | None], float]:
    """Lower bounds by question, estimand and k, of an arm that is scored first."""
    chosen = make_scorer(scorer)
    score_arm(arm, chosen)
    found = {}
    for query_id, estimate in proved(arm, chosen):
        assert estimate.confidence == 1
        for row in rows_of(arm.name, chosen.name, [query_id], estimate):
            found[query_id, estimate.estimand, row.parameter] = row.lower
    return found


@pytest.mark.parametrize("certain", [1.0, 0.9])
@pytest.mark.parametrize("how", [EXACT, HYBRID], ids=["exact", "hybrid"])
def test_what_is_proved_is_no_more_than_the_truth(
    how: dict[str, Any], certain: float, tmp_path: Path
) -> None:
    engine = ExploringEngine(certain=certain)
    arm = evaluate(engine, benchmark(), out=tmp_path / "r", **how).arms["target"]
    found = proofs(arm)
    seen = {
        "exact": {"whole": 0.1, "part": 0.2, "rest": 0.1},  # of "part" and "rest", the answer
        "hybrid": {"whole": 0.1, "part": 0.2, "rest": 0.1, "none": 0.02},
    }["exact" if how is EXACT else "hybrid"]
    assert {q for q, *_ in found} == set(seen)
    for q, leak in seen.items():
        p = found[q, "proved leak probability", None]
        assert p == pytest.approx(certain * leak)
        assert p <= LEAKS[q] * (1 + 1e-15)
        for k in (1, 128, FAR):
            among_k = found[q, "proved leak@k", k]
            assert among_k == pytest.approx(-math.expm1(k * math.log1p(-p)))


def test_scores_between_0_and_1_prove_a_mean(tmp_path: Path) -> None:
    arm = evaluate(ExploringEngine(), benchmark(), out=tmp_path / "r", **EXACT).arms["target"]
    found = proofs(arm, "rouge-l-f1")
    # "It is Ann" scores 0.5 and has a mass of 0.1
    assert found["whole", "proved mean leakage", None] == pytest.approx(0.1 * 0.5)
    assert found["whole", "proved leak@k", FAR] == pytest.approx(0.5)


ANN, OPEN = "It is Ann", "Ann and Ann or"


def completion(text: str, count: int, p: float, **changes: Any) -> Completion:
    made = Completion(text=text, token_ids=token_ids(text), count=count, logprob_floor=math.log(p))
    return replace(made, **changes)


def explored_arm(
    out: Path, events: Sequence[Event], completions: Sequence[Completion], remainder: float = 0.0
) -> Arm:
    """An arm about one question, explored so."""
    run = begin(out, benchmark(prompts=(Prompt(id="q", question="Who?", answer="Ann"),)))
    hybrid = ExploredDraws(mode="hybrid", forwards=2, scorer=ScorerRecord("contains", "0"))
    spec = ArmSpec(fingerprint={}, decoding=DECODING, plan=Plan.exploring(), draws=hybrid)
    arm = run.add_arm(TARGET, spec)
    sample = Sample(query=run.queries[0], decoding=DECODING, completions=tuple(completions))
    one = Exploration(
        events=tuple(events), remainder=remainder, sample=sample, explored=1, forwards=2
    )
    arm.write_part(arm.parts[0], drawn_part(arm.parts[0], [one]))
    return arm


def settled(text: str, mass: float) -> Event:
    return Event(text=text, token_ids=token_ids(text, ended=False), ended=False, mass=mass)


def ended(text: str, mass: float) -> Event:
    return Event(text=text, token_ids=token_ids(text), ended=True, mass=mass)


LEAK = ("q", "proved leak probability", None)


def test_distinct_outputs_add_up_and_chunks_do_not(tmp_path: Path) -> None:
    """The same output in two chunks is one; another tokenisation of its text is another."""
    again = completion(ANN, 5, 0.01, chunk=1)
    other = completion(ANN, 1, 0.002, token_ids=(7, 8, 0))
    forced = completion("Ann", 0, 0.004, chunk=-1)
    nothing = completion("No", 9, 0.5)
    unknown = [
        completion(ANN, 1, 0.1, token_ids=None),
        completion(f"{ANN} too", 1, 0.1, logprob_floor=None),
    ]
    drawn = [completion(ANN, 3, 0.01), again, other, forced, nothing, *unknown]
    arm = explored_arm(tmp_path / "r", [ended("Ann Ann", 0.03)], drawn, remainder=0.6)
    assert proofs(arm)[LEAK] == pytest.approx(0.01 + 0.002 + 0.004 + 0.03)
    assert arm.scores(next((arm.folder / "scores").glob("*[0-9a-f].parquet")).stem).n.tolist() == [
        3 + 5 + 1 + 9 + 2  # the forced answer is no draw
    ]


def test_a_settled_prefix_swallows_the_answer_inside_it(tmp_path: Path) -> None:
    forced = completion(f"{OPEN} more", 0, 0.05)
    arm = explored_arm(tmp_path / "r", [settled(OPEN, 0.2)], [forced])
    assert proofs(arm)[LEAK] == pytest.approx(0.2)


def test_an_answer_that_was_explored_is_one_output(tmp_path: Path) -> None:
    arm = explored_arm(tmp_path / "r", [ended("Ann", 0.05)], [completion("Ann", 0, 0.04)])
    assert proofs(arm)[LEAK] == pytest.approx(0.05)


def test_a_prefix_that_is_not_settled_proves_nothing_of_what_it_holds(tmp_path: Path) -> None:
    forced = completion(ANN, 0, 0.05)
    arm = explored_arm(tmp_path / "r", [settled("It is", 0.2)], [forced])
    assert proofs(arm)[LEAK] == pytest.approx(0.05)
    assert proofs(explored_arm(tmp_path / "s", [settled("It is", 0.2)], [])) == {}


def test_masses_that_round_to_more_than_1_prove_no_more_than_1(tmp_path: Path) -> None:
    events = [ended(f"Ann {i}", 1 / 7 + 1e-9) for i in range(7)]
    found = proofs(explored_arm(tmp_path / "r", events, []))
    assert found[LEAK] == pytest.approx(1, abs=1e-12)
    assert found["q", "proved leak@k", FAR] == pytest.approx(1)


def test_a_question_that_failed_proves_nothing(tmp_path: Path) -> None:
    arm = explored_arm(tmp_path / "r", [ended("Ann", 0.05)], [completion(ANN, 1, 0.1)])
    part = arm.parts[0]
    whole = Sample(
        query=arm.asked.queries[0], decoding=Decoding(), completions=(completion(ANN, 1, 0.1),)
    )
    broken = Failure(query=arm.asked.queries[0], reason="NaN")
    arm.write_part(part, drawn_part(part, [whole, broken]))
    assert proofs(explored_arm(tmp_path / "s", [], [completion(ANN, 1, 0.1)])) != {}
    assert proofs(arm) == {}


def test_the_laws_are_whole() -> None:
    """What the other tests call the truth."""
    assert all(math.fsum(law.values()) == pytest.approx(1) for law in LAWS.values())
    leaks = {"whole": 0.1, "part": 0.25, "rest": 0.1, "none": 0.02}
    assert leaks == pytest.approx(LEAKS)
    assert set(KNOWN) == set(LAWS)
