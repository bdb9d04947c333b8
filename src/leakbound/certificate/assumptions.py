"""Statements of a certificate that `verify` cannot make again: it takes them for granted.

Every field of a run is made again by `verify`, or its place is on the list of those that nothing
checks, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from leakbound.benchmarks import made_again
from leakbound.certificate.record import may_gather
from leakbound.errors import InputError
from leakbound.presenting.specification import short
from leakbound.scorers import make_scorer, source_of
from leakbound.store import Arm, ExploredDraws, ImportedDraws, Run
from leakbound.store.claims import LeakClaim
from leakbound.types import BenchmarkRecord, Fingerprint

TOLD = "recorded by the run"
SURROUNDINGS = ("transformers", "torch", "arithmetic", "row_budget")
"""Parts of a fingerprint that move logits by roundings only."""
_BENCHMARK = "what a benchmark whose rows are not known is by its name"
_REWRITTEN = "rewritings that do not follow from the questions"
_EXPLORED = "what exploring left is not drawn again"
_LESS = "less is stated than could be"
_CAP = "the most draws of a question are fixed before any draw is seen"
_OTHERS = "made by another tool or run"
ASIDE = "no statement rests on it"
UNCHECKED: Mapping[str, str] = {
    **dict.fromkeys(
        (f"run.json: {x}" for x in ("format", "version", "created", "place", "notes*", "claims*")),
        TOLD,
    ),
    **dict.fromkeys(("run.json: arms.*.model", "run.json: arms.*.place"), TOLD),
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
"""By patterns of the places in a run that nothing checks, the reason."""


def assumed(run: Run, arm: Arm, claim: LeakClaim, aloud: bool = False) -> tuple[str, ...]:
    """All that a certificate of an arm takes for granted, each to follow "that".

    Args:
        run: the run.
        arm: the arm.
        claim: the claim.
        aloud: only what is particular to this run, which the sentence says.

    Returns:
        The texts.
    """
    general = () if aloud else (*_of_claim(claim), *_general(run.record.benchmark))
    particular = Fingerprint.of(arm.spec.fingerprint).assumes, _particular(run, arm)
    return (*general, *particular[0], *particular[1])


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
        if made_again(record) is not None:
            return
    except InputError:
        pass  # which the check of the questions says
    yield f"{record.name} is the data set that its name says"


def _particular(run: Run, arm: Arm) -> Iterator[str]:
    half, inputs, draws = run.record.benchmark.half, run.record.inputs, arm.spec.draws
    if half is not None:
        by_coin = f"the subjects that coin {half.seed} chose from {half.benchmark}"
        yield f"the model was trained on {by_coin}"
    if inputs is not None and arm.key.asks == "rewritings" and not may_gather(run):
        yield f"the rewritings come from {inputs.source}"
    if arm.key.stress.startswith("relearn"):
        weights = short(str(arm.spec.fingerprint.get("weights")))
        yield f"the weights {weights} come from training the model as the stress says"
    if isinstance(draws, ImportedDraws):
        yield f"the draws were made as {draws.sampled_by} states"
    if isinstance(draws, ExploredDraws):
        yield "the draws after the exploration were made as planned"
    if (source := arm.spec.copied) is not None:
        yield f"the draws are those of arm {source.drawn_as} of another run"
