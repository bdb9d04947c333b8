"""Proofs of leakage: outputs of known probability, each counted once, which change no interval.

They follow from draws, explored masses and a search, and not where tokens merge.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import beta

from canned import benchmark_of
from contents import completions
from exploring import EXACT, HYBRID, LEAKS, ExploringEngine, arm_of_one, benchmark, token_ids
from leakbound.benchmarks.profiles import profiles, with_profile
from leakbound.bounding.proof import proof_rows
from leakbound.drawing import prove as proving
from leakbound.drawing.parts import Job
from leakbound.evaluation import evaluate
from leakbound.sampling.outputs import FORCED
from leakbound.scorers import make_scorer
from leakbound.scoring.score import score_arm
from leakbound.store import Arm, Run
from leakbound.study import Explore, FixedN, Prove
from leakbound.types import Completion, Decoding, Event, Failure, Generate, Prompt, Proving, Query
from offline_tokenizers import merging
from tabled import TableEngine
from tabled import benchmark as table_benchmark
from tiny import tiny_llama, tiny_model_folder

FAR = 1048576


def proofs(arm: Arm, scorer: str = "contains") -> dict[tuple[str, str, float | None], float]:
    """Score an arm; return lower bounds by question or scope, quantity and k."""
    chosen = make_scorer(scorer)
    score_arm(arm, chosen)
    rows = [*proof_rows(arm, chosen)]
    assert all(row.confidence == 1 and row.about.proved for row in rows)
    return {(r.query_id or r.scope, r.quantity, r.parameter): r.lower for r in rows}


@pytest.mark.parametrize("certain", [1.0, 0.9])
@pytest.mark.parametrize("how", [EXACT, HYBRID], ids=["exact", "hybrid"])
def test_proofs_are_below_the_truth(how: dict[str, Any], certain: float, tmp_path: Path) -> None:
    engine = ExploringEngine(certain=certain)
    arm = evaluate(engine, benchmark(), out=tmp_path / "r", **how).arms["target"]
    got = proofs(arm)
    seen = {
        "exact": {"whole": 0.1, "part": 0.2, "rest": 0.1},  # "part" and "rest": the answer
        "hybrid": {"whole": 0.1, "part": 0.2, "rest": 0.1, "none": 0.02},
    }["exact" if how is EXACT else "hybrid"]
    assert {q for q, *_ in got} == {*seen, "worst question", "mean"}
    leaks = [got[q, "leak probability", None] for q in seen]
    assert got["worst question", "leak probability", None] == max(leaks)
    assert got["mean", "leak probability", None] == pytest.approx(sum(leaks) / len(LEAKS))
    for q, leak in seen.items():
        p = got[q, "leak probability", None]
        assert p == pytest.approx(certain * leak)
        assert p <= LEAKS[q] * (1 + 1e-15)
        for k in (1, 128, FAR):
            among_k = got[q, "leak@k", k]
            assert among_k == pytest.approx(-math.expm1(k * math.log1p(-p)))


def test_scores_between_0_and_1_prove_a_mean(tmp_path: Path) -> None:
    arm = evaluate(ExploringEngine(), benchmark(), out=tmp_path / "r", **EXACT).arms["target"]
    got = proofs(arm, "rouge-l-f1")
    # "It is Ann" scores 0.5 and has a mass of 0.1
    assert got["whole", "mean leakage", None] == pytest.approx(0.1 * 0.5)
    assert got["whole", "leak@k", FAR] == pytest.approx(0.5)


ANN, OPEN = "It is Ann", "Ann and Ann or"


def completion(text: str, count: int, p: float, **changes: Any) -> Completion:
    made = Completion(
        answer=text, token_ids=token_ids(text), count=count, logprob_floor=math.log(p)
    )
    return replace(made, **changes)


def explored_arm(
    out: Path, events: Sequence[Event], completions: Sequence[Completion], remainder: float = 0.0
) -> Arm:
    return arm_of_one(out, "q", completions, events, remainder)


def settled(text: str, mass: float) -> Event:
    return Event(answer=text, token_ids=token_ids(text, ended=False), ended=False, mass=mass)


def ended(text: str, mass: float) -> Event:
    return Event(answer=text, token_ids=token_ids(text), ended=True, mass=mass)


LEAK = ("q", "leak probability", None)


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
    name = next((arm.folder / "scores").glob("*[0-9a-f].parquet")).stem
    n = arm.scores(name, binary=True).n
    assert n.tolist() == [3 + 5 + 1 + 9 + 2]  # the forced answer is no draw


@pytest.mark.parametrize(
    ("event", "forced", "mass"),
    [
        (settled(OPEN, 0.2), completion(f"{OPEN} more", 0, 0.05), 0.2),
        (ended("Ann", 0.05), completion("Ann", 0, 0.04), 0.05),
        (settled("It is", 0.2), completion(ANN, 0, 0.05), 0.05),
        (settled("It is", 0.2), None, None),
    ],
    ids=["inside a settled prefix", "explored", "inside an open prefix", "an open prefix alone"],
)
def test_an_output_counts_once(
    event: Event, forced: Completion | None, mass: float | None, tmp_path: Path
) -> None:
    arm = explored_arm(tmp_path / "r", [event], [forced] if forced else [])
    assert proofs(arm).get(LEAK) == (None if mass is None else pytest.approx(mass))


def test_masses_that_round_to_more_than_1_prove_no_more_than_1(tmp_path: Path) -> None:
    events = [ended(f"Ann {i}", 1 / 7 + 1e-9) for i in range(7)]
    got = proofs(explored_arm(tmp_path / "r", events, []))
    assert got[LEAK] == pytest.approx(1, abs=1e-12)
    assert got["q", "leak@k", FAR] == pytest.approx(1)


RARE = 0.3  # leaks so often that the bound from a few draws is below the proved bound
HOW: dict[str, Any] = {"sampling": FixedN(64), "prove": Prove(40), "scorers": ("keyword",)}


def leaking(query: Query) -> float:
    return RARE if query.prompt_id == "p0" else 0.0


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    out = tmp_path_factory.mktemp("raised") / "run"
    control = TableEngine(lambda query: 0.0, name="control")
    return evaluate(TableEngine(leaking), table_benchmark(3), out=out, control=control, **HOW)


def proved_of(run: Run) -> dict[str | None, float]:
    rows = run.estimates.where(arm="target", quantity="leak probability", proved=True)
    return {row.query_id: row.lower for row in rows}


def test_a_proof_changes_no_interval_of_draws(run: Run) -> None:
    """Bounds are those of the draws, by Clopper and Pearson's definition."""
    own = run.estimates.each("leak probability").rows[0]
    hits = round(own.value * own.n)  # type: ignore[operator]
    assert 0 < own.lower < proved_of(run)["p0"]
    assert own.lower == pytest.approx(beta.ppf(0.005, hits, own.n - hits + 1))
    assert own.upper == pytest.approx(beta.ppf(0.995, hits + 1, own.n - hits))
    worst = run.estimates.worst("leak probability")
    assert worst.lower == pytest.approx(beta.ppf(0.005 / 3, hits, own.n - hits + 1))
    rows = run.estimates.where(arm="target", query_id="p0", quantity="leak@k")
    drawn = {row.parameter: row.lower for row in rows.where(proved=False)}
    sure = {row.parameter: row.lower for row in rows.where(proved=True)}
    assert drawn.keys() == sure.keys()
    assert all(bound < sure[k] for k, bound in drawn.items() if k and k < 64)
    assert {row.confidence for row in rows.where(proved=True)} == {1}


class Boasting(TableEngine):
    """Gives forced texts the chances of a model that leaks more."""

    boast = 0.9

    def force(
        self, texts: Sequence[tuple[Query, str]], decoding: Decoding
    ) -> list[Completion | None]:
        return TableEngine(lambda query: self.boast).force(texts, decoding)


@pytest.mark.parametrize(("boast", "warn"), [(0.9, True), (0.0488, False)])
def test_a_proof_above_an_upper_bound_is_reported(boast: float, warn: bool, tmp_path: Path) -> None:
    how = HOW | {"sampling": FixedN(256), "prove": None}
    engine = Boasting(lambda query: 0.0)
    engine.boast = boast
    run = evaluate(engine, table_benchmark(2), out=tmp_path / "r", **how)
    known = proved_of(run)["p0"]
    (own, _) = run.estimates.each("leak probability")
    assert known > own.upper > own.lower
    shown = run.verdict.warning
    if not warn:
        assert 0.0025 < (1 - known) ** 256 < 0.005
        assert shown == ""
        return
    assert shown.startswith("inconsistent: for p0, a leakage ≥ ")
    assert "is proved, but the draws give an upper bound of" in shown
    assert shown in str(run.verdict)


TWO = benchmark_of(["a", "b"], scorers=("contains",), max_new_tokens=4)
TASK = replace(
    TWO,
    prompts=(
        Prompt(id="a", question="who wrote red", answer="Ann", paraphrased_answer="Ann sea"),
        Prompt(id="b", question="who wrote blue", answer="Bob"),
    ),
)


def test_the_search_starts_from_paraphrases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leads: dict[str, tuple[str, ...]] = {}
    whole = proving.prove_question

    def noted(engine: Generate, job: Job) -> Proving | Failure:
        leads[job.queries[0].id] = job.texts
        return whole(engine, job)

    monkeypatch.setattr(proving, "prove_question", noted)
    folder = str(tiny_model_folder(tmp_path / "model"))
    other = replace(TASK.prompts[1], paraphrased_answer="the sea")
    task = replace(TASK, prompts=(TASK.prompts[0], other))
    evaluate(folder, task, n=8, prove=Prove(30), out=tmp_path / "run")
    assert leads["a"][:2] == ("Ann", "Ann sea")
    assert leads["b"][0] == "Bob"
    assert "the sea" not in leads["b"]


MERGED = benchmark_of(
    ["Ann", "Bob"], question="who wrote?", answer="{} did", scorers=("contains",), max_new_tokens=12
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    tokenizer = merging(": A")
    folder = tmp_path_factory.mktemp("merging")
    end = tokenizer.eos_token_id
    tiny_llama(len(tokenizer), 1, eos_token_id=end).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def forced(arm: Arm) -> set[str]:
    """Return the questions whose forced answers are stored with the draws."""
    return {row["query_id"] for row in completions(arm) if row["chunk"] == FORCED}


@pytest.mark.parametrize("how", [{"n": 8}, {"sampling": Explore("hybrid", 40)}], ids=str)
def test_merged_tokens_prove_nothing(how: dict[str, int | str], model: str, tmp_path: Path) -> None:
    arm = evaluate(model, MERGED, out=tmp_path / "run", **how).arms["target"]  # type: ignore[arg-type]
    assert forced(arm) == {"Bob"}
    (note,) = [note for note in arm.usage.notes if "used in proofs" in note]
    assert "'Ann'" in note
    assert "'Bob'" not in note


def test_a_profile_with_other_prompts_for_reading_proves_nothing(
    model: str, tmp_path: Path
) -> None:
    """OpenUnlearning generates after the space that its joint tokens assign to the answer."""
    task = with_profile(MERGED, profiles()["openunlearning"])
    arm = evaluate(model, task, n=8, out=tmp_path / "run").arms["target"]
    assert forced(arm) == set()
    assert any("'Ann', 'Bob'" in note for note in arm.usage.notes)
