"""Weighted draws beside proofs, of engines whose every probability is known."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from knowing import MODEL, OTHER, TASK, TRUTH, KnownEngine, engine
from leakbound.errors import InputError
from leakbound.evaluation import evaluate
from leakbound.evaluation.drawing.weigh import Proposal, proposal_for, weigh_arm
from leakbound.evaluation.statements.weighed import WeighedArm
from leakbound.scorers import make_scorer
from leakbound.store import Arm, Run
from leakbound.study import Prove, Weighing
from leakbound.types import (
    Decoding,
    Query,
)


@pytest.fixture
def proved(tmp_path: Path) -> Run:
    """A run of which a part of the leaking mass is proved."""
    search = Prove(3, ("none",))
    return evaluate(engine(MODEL, "model"), TASK, n=4, prove=search, out=tmp_path / "run")


def weighed(run: Run, who: KnownEngine, other: KnownEngine, asked: Weighing) -> WeighedArm:
    """What draws add to the proofs, as the estimates of the run are made."""
    arm, scorer = run.arms["target"], make_scorer("contains")
    assert weigh_arm(arm, who, Proposal(other, lambda query: query), scorer, asked) == []
    found = WeighedArm.of(arm, scorer)
    assert found is not None
    return found


def proof_of(run: Run) -> float:
    """What is proved of the only question."""
    (row,) = run.estimates.where(quantity="leak probability", proved=True)
    return float(row.lower)


def leakage(found: WeighedArm, confidence: float = 0.99) -> Any:
    ((_, estimate),) = found.each(confidence)
    return estimate


@pytest.mark.parametrize("mix", [0.2, 0.5, 0.9])
def test_proof_and_draws_together_are_unbiased(proved: Run, mix: float) -> None:
    """The expectation over every output of the mixture is the leak probability; no simulation."""
    proof = proof_of(proved)
    assert 0 < proof < 0.95 * TRUTH
    who, other = engine(MODEL, "model"), engine(OTHER, "other")
    mean = 0.0
    for text in {**MODEL, **OTHER}:
        who.said = other.said = text
        found = leakage(weighed(proved, who, other, Weighing(1, mix)))
        q = mix * OTHER.get(text, 0.0) + (1 - mix) * MODEL.get(text, 0.0)
        mean += q * found.value
        (proved.arms["target"].weighed.file(_slug())).unlink()
    assert mean == pytest.approx(TRUTH, abs=1e-8)


def test_the_ends_hold_and_the_standard_error_is_said(proved: Run) -> None:
    proof = proof_of(proved)
    found = weighed(proved, engine(MODEL, "model"), engine(OTHER, "other"), Weighing(4_000))
    made = leakage(found)
    assert made.method == "proof + importance sampling, finite-horizon betting"
    assert 0 < made.standard_error < TRUTH / 2
    assert abs(made.value - TRUTH) < 5 * made.standard_error
    assert 2.5 * proof < made.lower < TRUTH < made.upper < 2 * TRUTH
    assert (made.n, made.missing, made.about.quantity) == (
        4_000, 0, "importance-sampled leak probability",
    )  # fmt: skip
    worst = found.worst(0.99)
    assert (worst.lower, worst.upper) == (made.lower, made.upper)  # of one question
    alone = leakage(weighed(proved, engine(MODEL, "model"), engine(OTHER, "other"), Weighing(1)))
    assert alone.standard_error is None


def test_the_same_draws_come_again_and_others_by_another_mix(proved: Run) -> None:
    def drawn(mix: float) -> list[tuple[str, int]]:
        arm = proved.arms["target"]
        weighed(proved, engine(MODEL, "model"), engine(OTHER, "other"), Weighing(60, mix))
        stored = arm.weighed.read(_slug())
        assert stored is not None
        assert (stored.draws, stored.mix) == (60, mix)
        assert sum(text.count for text in stored.queries[0].texts) == 60
        return [(text.text, text.count) for text in stored.queries[0].texts]

    first = drawn(0.5)
    assert drawn(0.5) == first
    proved.arms["target"].weighed.file(_slug()).unlink()
    assert drawn(0.5) == first
    assert drawn(0.8) != first


def test_an_output_that_a_model_cannot_weigh_counts_against_both_ends(proved: Run) -> None:
    who, other = engine(MODEL, "model"), engine(OTHER, "other")
    other.said = "Bob No No No No No No No No No"  # longer than an output can be
    proof = proof_of(proved)
    made = leakage(weighed(proved, who, other, Weighing(200)))
    assert made.missing > 60
    assert made.upper > 0.5
    assert made.lower < TRUTH
    assert proof <= made.lower


@pytest.mark.parametrize(
    "decoding",
    [Decoding(top_p=0.95), Decoding(top_k=3, temperature=1.5), Decoding(adaptive_temperature=0.75)],
    ids=lambda decoding: decoding.name,
)
def test_decodings_that_truncate_or_adapt_are_weighed_too(
    decoding: Decoding, tmp_path: Path
) -> None:
    """Without bias, each weight between its ends; an output that is cut off weighs nothing."""
    who, other = engine(MODEL, "model"), engine(OTHER, "other")
    run = evaluate(
        who, TASK, n=4, prove=Prove(3, ("none",)), out=tmp_path / "run", decodings=(decoding,)
    )
    (arm,) = _sampled(run)
    query = Query(id="q", prompt_id="q", text="Who?")
    laws = [law_of(each, query, arm.decoding) for each in (who, other)]
    assert set(laws[1]) - set(laws[0])  # what the model cannot say is proposed
    truth, mean, mix = sum(p for text, p in laws[0].items() if "Ann" in text), 0.0, 0.5
    for text in {**laws[0], **laws[1]}:
        who.said = other.said = text
        assert (
            weigh_arm(
                arm,
                who,
                Proposal(other, lambda query: query),
                make_scorer("contains"),
                Weighing(1, mix),
            )
            == []
        )
        found = WeighedArm.of(arm, make_scorer("contains"))
        assert found is not None
        made = leakage(found)
        assert made.missing == 0
        q = mix * laws[1].get(text, 0.0) + (1 - mix) * laws[0].get(text, 0.0)
        mean += q * made.value
        arm.weighed.file(_slug()).unlink()
    assert mean == pytest.approx(truth, abs=1e-6)


def law_of(who: KnownEngine, query: Query, decoding: Decoding) -> dict[str, float]:
    """The probabilities of an engine's outputs under a decoding, where they are possible."""
    found = who.log_ranges([(query, who.ids(text)) for text in MODEL], decoding)
    values = {text: x.value for text, x in zip(MODEL, found, strict=True) if x is not None}
    return {text: math.exp(value) for text, value in values.items() if value > -math.inf}


def test_what_cannot_be_weighed_is_refused(proved: Run) -> None:
    who = engine(MODEL, "model")
    with pytest.raises(InputError, match="is nobody"):
        proposal_for(proved, _sampled(proved), who, Prove(3, ("none",)), lambda name: who)
    with pytest.raises(InputError, match="another tokenizer"):
        proposal_for(proved, _sampled(proved), who, Prove(3, ("m",)), lambda name: who)
    loose = engine(MODEL, "model")
    loose.margin = math.inf
    with pytest.raises(InputError, match="half precision"):
        weighed(proved, who, loose, Weighing(4))
    for wrong in ({"draws": 0}, {"draws": 4, "mix": 0.0}, {"draws": 4, "mix": 1.0}):
        with pytest.raises(InputError, match=r"`draws`|`mix`"):
            Weighing(**wrong)


def _sampled(run: Run) -> list[Arm]:
    return [arm for arm in run.arms.values() if not arm.decoding.greedy]


def _slug() -> str:
    from leakbound.evaluation.scoring.score import slug

    return slug(make_scorer("contains"))
