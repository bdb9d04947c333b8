"""The assumptions of a certificate: statements that `verify` cannot recompute.

`verify` recomputes every field of a run, or the field's place is in `UNCHECKED` with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from leakbound.benchmarks import made_again
from leakbound.certificate.record import may_gather
from leakbound.errors import InputError
from leakbound.presenting.specification import short
from leakbound.scorers import make_scorer, source_of
from leakbound.store import Arm, ExploredDraws, ImportedDraws, Run
from leakbound.store.claims import LeakClaim
from leakbound.types import BenchmarkRecord, Fingerprint

RECORDED = "recorded by the run"
SURROUNDINGS = ("transformers", "torch", "arithmetic", "row_budget")
"""Parts of a fingerprint that change logits only by rounding."""
_BENCHMARK = "described by the name of a benchmark without known rows"
_REWRITTEN = "rewritings that do not follow from the questions"
_EXPLORED = "the draws after an exploration are not drawn again"
_LESS = "a change makes the statements weaker"
_CAP = "the largest number of draws per question is fixed before any draw is seen"
_OTHERS = "made by another tool or run"
ASIDE = "no statement depends on it"
UNCHECKED: Mapping[str, str] = {
    **dict.fromkeys(
        (f"run.json: {x}" for x in ("format", "version", "created", "place", "notes*", "claims*")),
        RECORDED,
    ),
    **dict.fromkeys(("run.json: arms.*.model", "run.json: arms.*.place"), RECORDED),
    **dict.fromkeys(
        (f"run.json: benchmark.{x}" for x in ("name", "origin", "profile", "usual*", "half*")),
        _BENCHMARK,
    ),
    "run.json: inputs*": _REWRITTEN,
    **dict.fromkeys((f"run.json: arms.*.{name}" for name in ("draws*", "seed")), _EXPLORED),
    **dict.fromkeys(
        (f"completions: {name}" for name in ("missing", "chunk", "count", "row *")), _EXPLORED
    ),
    **dict.fromkeys(
        (f"masses: {name}" for name in ("remainder*", "settled*", "forwards*", "*row *")),
        _EXPLORED,
    ),
    **dict.fromkeys(("*masses: *mass", "proofs: *mass", "proofs: *row *"), _LESS),
    **dict.fromkeys(
        (f"run.json: arms.*.fingerprint.{x}" for x in (*SURROUNDINGS, "prompting*")),
        "the same draws are made again",
    ),
    "run.json: arms.*.copied*": _OTHERS,
    "run.json: arms.*.plan.n": _CAP,
    **dict.fromkeys(
        (f"run.json: {x}" for x in ("study*", "scorers*", "headline*", "redacted")), ASIDE
    ),
    **dict.fromkeys(("run.json: attack*", "run.json: tried*"), ASIDE),
    **dict.fromkeys((f"run.json: arms.*.{name}" for name in ("machine*", "probe*")), ASIDE),
    **dict.fromkeys(("inputs.json: *", "stress: *", "*other arm*"), ASIDE),
    **dict.fromkeys((f"proofs: {name}" for name in ("most", "searched", "forwards*")), ASIDE),
    **dict.fromkeys(("run.json: files", "looks.json: arm", "completions: forced, *"), ASIDE),
    **dict.fromkeys(("* usage*", "* machine*", "* rows", "*open, tokens"), ASIDE),
    **dict.fromkeys(
        (f"completions: *{name}" for name in ("logprob*", "confidence", "row moved")), ASIDE
    ),
}
"""The reason why nothing checks a place of a run, by patterns of the places."""


def assumed(run: Run, arm: Arm, claim: LeakClaim) -> tuple[str, ...]:
    """Return the assumptions of a certificate, each a clause to follow "that".

    Args:
        run: the run.
        arm: the arm.
        claim: the claim.

    Returns:
        The texts.
    """
    general = _of_claim(claim), _general(run.record.benchmark)
    particular = Fingerprint.of(arm.spec.fingerprint).assumes, _particular(run, arm)
    return tuple(chain(*general, *particular))


def _of_claim(claim: LeakClaim) -> Iterator[str]:
    if source := source_of(make_scorer(claim.scorer)):
        yield f"the code of the scorer{source} has not changed since before any draw was seen"
    if not claim.among:
        yield "the claim, the seed and the number of draws were fixed before any draw was seen"
        return
    arms, scorers = (", ".join(dict.fromkeys(names)) for names in zip(*claim.among, strict=True))
    yield "the seed and the number of draws were fixed before any draw was seen"
    yield f"the arms ({arms}) and scorers ({scorers}) were chosen without a look at scores"


def _general(record: BenchmarkRecord) -> Iterator[str]:
    yield "model name, date, version and notes are recorded correctly"
    if record.usual is not None and record.usual.published:
        yield f"the default prompt and limits of {record.name} are recorded correctly"
        return
    try:
        known = made_again(record) is not None
    except InputError:
        known = False  # the check of the questions reports the error
    if not known:
        yield f"{record.name} is the data set of that name"


def _particular(run: Run, arm: Arm) -> Iterator[str]:
    half, inputs, draws = run.record.benchmark.half, run.record.inputs, arm.spec.draws
    if half is not None:
        by_coin = f"the subjects that coin {half.seed} chose from {half.benchmark}"
        yield f"the model was trained on {by_coin}"
    if inputs is not None and arm.key.asks == "rewritings" and not may_gather(run):
        yield f"the rewritings come from {inputs.source}"
    if arm.key.stress.startswith("relearn"):
        weights = short(str(arm.spec.fingerprint.get("weights")))
        yield f"the weights {weights} come from the training that the stress specifies"
    if isinstance(draws, ImportedDraws):
        yield f"the draws were made as {draws.sampled_by} states"
    if isinstance(draws, ExploredDraws):
        yield "the draws after the exploration were made as planned"
    if (source := arm.spec.copied) is not None:
        yield f"the draws are those of arm {source.drawn_as} of another run"
