"""Copies among an arm's draws are refused before anything is bounded; honest draws pass."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from canned import CannedEngine, drawn_part
from exploring import DECODING, LAWS, benchmark, token_ids
from leakbound.errors import InputError
from leakbound.evaluation import bound_run, evaluate, score_run
from leakbound.evaluation.drawing.queries import begin
from leakbound.evaluation.scoring.checks import require_independent_draws
from leakbound.scorers import make_scorer
from leakbound.store import TARGET, Arm, ArmSpec, ExploredDraws, FixedDraws, Plan, Run, ScorerRecord
from leakbound.types import Completion, Decoding, Exploration, Prompt, Sample

LAW = {f"word {i}": 0.02 for i in range(40)} | {"No": 0.2}
Counts = Mapping[str, int]


def arm_of(
    out: Path,
    chunks: Sequence[Counts],
    *,
    remainder: float | None = None,
    known: bool = True,
    decoding: Decoding = DECODING,
) -> Arm:
    """An arm about one question that drew these texts; explored, with that remainder."""
    run = begin(out, benchmark(prompts=(Prompt(id="q7", question="Who?", answer="Ann"),)))
    explores = remainder is not None
    plan = Plan.exploring() if explores else Plan(n=1, chunk=1)
    hybrid = ExploredDraws(mode="hybrid", forwards=2, scorer=ScorerRecord("contains", "0"))
    draws = hybrid if explores else FixedDraws()
    spec = ArmSpec(fingerprint={}, decoding=decoding, plan=plan, draws=draws)
    arm = run.add_arm(TARGET, spec)
    completions = tuple(
        Completion(
            text=text,
            token_ids=token_ids(text) if known else None,
            count=count,
            chunk=chunk,
            logprob=math.log(LAW[text]) if known else None,
        )
        for chunk, counts in enumerate(chunks)
        for text, count in counts.items()
    )
    sample = Sample(query=run.queries[0], decoding=decoding, completions=completions)
    if remainder is None:
        arm.write_part(arm.parts[0], drawn_part(arm.parts[0], [sample]))
    else:
        one = Exploration(events=(), remainder=remainder, sample=sample, explored=1, forwards=2)
        arm.write_part(arm.parts[0], drawn_part(arm.parts[0], [one]))
    return arm


def honest(seed: int, n: int = 200, law: Mapping[str, float] = LAW) -> Counts:
    counts = np.random.default_rng(seed).multinomial(n, list(law.values()))
    return {text: int(c) for text, c in zip(law, counts, strict=True) if c}


ONCE = honest(0)
COPIED: Mapping[str, Sequence[Counts]] = {
    "one text": [{**ONCE, "word 3": 60}],
    "every draw three times": [{text: 3 * count for text, count in ONCE.items()}],
    "two chunks alike": [ONCE, honest(1), ONCE],
}


@pytest.mark.parametrize("name", COPIED)
def test_copies_are_refused_by_name(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"draws of question 'q7' in arm 'target' are not indep"):
        require_independent_draws(arm_of(tmp_path / "r", COPIED[name]))


def test_nothing_is_bounded_before(tmp_path: Path) -> None:
    arm = arm_of(tmp_path / "r", COPIED["two chunks alike"])
    scorer = make_scorer("contains")
    run = Run.open(arm.folder.parents[1])
    score_run(run, [scorer])
    with pytest.raises(InputError, match="Draw again"):
        bound_run(run, [scorer])
    assert not (tmp_path / "r" / "estimates.parquet").exists()


def test_independent_draws_pass_in_whatever_chunks(tmp_path: Path) -> None:
    chunks = [honest(seed) for seed in range(6)]
    require_independent_draws(arm_of(tmp_path / "r", chunks))
    forced = {**chunks[0], "word 1": 0}
    require_independent_draws(arm_of(tmp_path / "f", [forced, *chunks[1:]]))


@pytest.mark.parametrize("shift", [0, 1e-7])  # as between batch shapes
def test_a_text_that_came_twice_within_a_chunk_is_counted_together(
    shift: float, tmp_path: Path
) -> None:
    """Two rows of 14 draws of one text are 28 draws of it."""
    arm = arm_of(tmp_path / "r", [{**ONCE, "word 3": 14}])
    part = arm.parts[0]
    twice = Completion(
        text="word 3",
        token_ids=token_ids("word 3"),
        count=14,
        logprob=math.log(LAW["word 3"]) + shift,
    )
    table = arm.completions(part).to_pylist()
    rows = [Completion(**{k: v for k, v in r.items() if k != "query_id"}) for r in table]
    sample = Sample(query=arm.asked.queries[0], decoding=DECODING, completions=(*rows, twice))
    require_independent_draws(arm)
    arm.write_part(part, drawn_part(part, [sample]))
    with pytest.raises(InputError, match="one text came 28 times"):
        require_independent_draws(arm)


def test_an_engine_without_probabilities_passes(tmp_path: Path) -> None:
    require_independent_draws(arm_of(tmp_path / "r", COPIED["one text"], known=False))
    evaluate(CannedEngine(LAWS), benchmark(), out=tmp_path / "e", n=32)


def test_a_greedy_arm_passes(tmp_path: Path) -> None:
    greedy = Decoding(temperature=0.0)
    require_independent_draws(arm_of(tmp_path / "r", [{"word 3": 60}], decoding=greedy))


def test_draws_of_a_remainder_are_held_against_the_law_given_it(tmp_path: Path) -> None:
    """Two words are left: each is every second draw, though its probability is 0.02."""
    left = {"word 3": 0.5, "word 4": 0.5}
    half = [honest(1, law=left)]
    require_independent_draws(arm_of(tmp_path / "r", half, remainder=0.04))
    with pytest.raises(InputError, match="'q7'"):
        require_independent_draws(arm_of(tmp_path / "s", half))
    copied = arm_of(tmp_path / "c", [{"word 3": 190, "word 4": 10}], remainder=0.04)
    with pytest.raises(InputError, match="one text came"):
        require_independent_draws(copied)


def test_a_remainder_that_may_be_nothing_checks_nothing(tmp_path: Path) -> None:
    require_independent_draws(arm_of(tmp_path / "r", [{"word 3": 60}], remainder=0.0))
