"""The assumptions of a certificate: statements that `verify` cannot check."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from leakbound.certificate.record import is_known, may_gather
from leakbound.presenting.specification import short
from leakbound.scorers import make_scorer, source_of
from leakbound.store import Arm, ExploredDraws, ImportedDraws, Run
from leakbound.store.claims import LeakClaim
from leakbound.types import BenchmarkRecord, Fingerprint

SURROUNDINGS = ("transformers", "torch", "arithmetic", "row_budget")
"""The parts of a model's fingerprint that change logits only by rounding errors."""


def assumed(run: Run, arm: Arm, claim: LeakClaim) -> tuple[str, ...]:
    """Return the assumptions of a certificate, each a clause that completes "It is assumed that".

    Args:
        run: the run.
        arm: the arm.
        claim: the claim.

    Returns:
        The assumptions as texts.
    """
    general = _of_claim(claim), _general(run.record.benchmark)
    engine = Fingerprint.of(arm.spec.fingerprint).assumes
    return tuple(chain(*general, engine, _particular(run, arm)))


def _of_claim(claim: LeakClaim) -> Iterator[str]:
    if source := source_of(make_scorer(claim.scorer)):
        yield f"the code of the scorer{source} has not changed since before the first draw"
    if not claim.among:
        yield "the claim, the seed and the number of draws were fixed before any draw was seen"
        return
    arms, scorers = (", ".join(dict.fromkeys(names)) for names in zip(*claim.among, strict=True))
    yield "the seed and the number of draws were fixed before any draw was seen"
    yield f"the arms ({arms}) and scorers ({scorers}) were chosen before any score was seen"


def _general(record: BenchmarkRecord) -> Iterator[str]:
    yield "model name, date, version and notes are recorded correctly"
    if record.usual is not None and record.usual.published:
        yield f"the default prompt and limits of {record.name} are recorded correctly"
    elif not is_known(record):
        yield f"the questions are those of the data set {record.name}"


def _particular(run: Run, arm: Arm) -> Iterator[str]:
    half, inputs, draws = run.record.benchmark.half, run.record.inputs, arm.spec.draws
    if half is not None:
        by_coin = f"the random choice with seed {half.seed} (the coin)"
        yield f"the model was trained on the subjects of {half.benchmark} that {by_coin} selected"
    if inputs is not None and arm.key.kind == "rewritings" and not may_gather(run):
        yield f"the rewritings come from {inputs.source}"
    if arm.key.stress.startswith("relearn"):
        weights = short(str(arm.spec.fingerprint.get("weights")))
        yield f"the weights {weights} come from the training that the stress specifies"
    if isinstance(draws, ImportedDraws):
        yield f"the draws were sampled by {draws.sampled_by}, as the imported files state"
    if isinstance(draws, ExploredDraws):
        yield "the draws after the exploration were made as planned"
    if (source := arm.spec.copied) is not None:
        yield f"the draws were copied from arm {source.drawn_as} of another run"
