"""What a certificate states and `verify` cannot make again: taken for granted, and said so.

Every field of a run is made again by `verify`, or stands here: under an assumption that the
certificate states, or among those that nothing in it rests on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from leakbound.benchmarks import made_again
from leakbound.certificate.record import may_gather
from leakbound.errors import InputError
from leakbound.evaluation.views.specification import short
from leakbound.store import Arm, ExploredDraws, ImportedDraws, Run
from leakbound.types import Fingerprint


@dataclass(frozen=True, slots=True)
class Assumption:
    """Something that is taken for granted.

    Attributes:
        text: what, of an arm of a run, to follow "that"; empty where nothing is.
        places: where the run says it, as patterns of paths.
        aloud: whether the sentence of the certificate says it; else its list does.
    """

    text: Callable[[Run, Arm], str]
    places: tuple[str, ...] = ()
    aloud: bool = True


def _beforehand(run: Run, arm: Arm) -> str:
    return "the claim, the seed and the plan of the draws were fixed before any draw was seen"


def _told(run: Run, arm: Arm) -> str:
    return "the model's name, the date, the version and the notes are as the run tells them"


def _benchmark(run: Run, arm: Arm) -> str:
    record = run.record.benchmark
    try:
        if made_again(record) is not None:
            return ""
    except InputError:
        pass  # which the check of the questions says
    if record.usual is not None and record.usual.published:
        return f"{record.name} is by itself asked as the run says"
    return f"{record.name} is what its name says: only its rows are known here"


def _coin(run: Run, arm: Arm) -> str:
    half = run.record.benchmark.half
    if half is None:
        return ""
    return f"the model was taught whom coin {half.seed} chose of {half.benchmark}"


def _rewritings(run: Run, arm: Arm) -> str:
    inputs = run.record.inputs
    if inputs is None or arm.key.asks != "rewritings" or may_gather(run):
        return ""
    return f"the rewritings are those that {inputs.source} gave"


def _relearned(run: Run, arm: Arm) -> str:
    if not arm.key.stress.startswith("relearn"):
        return ""
    weights = short(str(arm.spec.fingerprint.get("weights")))
    return f"training made the weights {weights} of the model as the stress says"


def _imported(run: Run, arm: Arm) -> str:
    draws = arm.spec.draws
    return f"{draws.sampled_by} drew them" if isinstance(draws, ImportedDraws) else ""


def _explored(run: Run, arm: Arm) -> str:
    if not isinstance(arm.spec.draws, ExploredDraws):
        return ""
    return "what exploring left was drawn as planned"


def _copied(run: Run, arm: Arm) -> str:
    source = arm.spec.copied
    return "" if source is None else f"the draws are those of arm {source.drawn_as} of another run"


ASSUMPTIONS = (
    Assumption(_beforehand, aloud=False),
    Assumption(
        _told,
        (
            "run.json: version",
            "run.json: created",
            "run.json: notes*",
            "run.json: arms.*.model",
            "run.json: inputs.fingerprint*",
        ),
        aloud=False,
    ),
    Assumption(
        _benchmark,
        tuple(
            f"run.json: benchmark.{name}"
            for name in ("name", "origin", "profile", "usual*", "half*")
        ),
        aloud=False,
    ),
    Assumption(_coin),
    Assumption(_rewritings, ("run.json: inputs*", "queries.parquet: *")),
    Assumption(_relearned),
    Assumption(_imported, ("run.json: arms.*.draws*", "run.json: arms.*.fingerprint*")),
    Assumption(
        _explored,
        (
            "run.json: arms.*.draws*",
            *(f"completions: {name}" for name in ("missing", "chunk", "count", "row *")),
            *(f"masses: {name}" for name in ("remainder*", "settled*", "forwards*", "*row *")),
        ),
    ),
    Assumption(_copied, ("run.json: arms.*.copied*",)),
)
UNSTATED: Mapping[str, str] = {
    "run.json: study*": "what the arms were asked for stands with the arms",
    "run.json: scorers*": "a certificate names its own scorer",
    "run.json: redacted": "decides what pages show",
    "run.json: attack*": "no certificate is about a search",
    "run.json: tried*": "no certificate is about a search",
    "run.json: arms.*.machine*": "the place of the draws changes no distribution",
    "run.json: arms.*.probe*": "tells models apart that have one fingerprint",
    "run.json: arms.*.cut*": "which draws were stored together",
    "cut.json: *": "which draws were stored together",
    "*other arm*": "a certificate is about one arm",
    "stress: *": "the stressed model is made again of the model before the stress",
    "* usage*": "what the draws cost",
    "* machine*": "the place of the draws changes no distribution",
    "* rows": "how many rows a table has is counted",
    "completions: *logprob*": "no number rests on the probability of a draw",
    "completions: *confidence": "no number rests on the probability of a draw",
    "completions: *row moved": "draws are put in an order of their own",
}
"""By patterns of paths, why nothing that a certificate states rests on them."""


def assumed(run: Run, arm: Arm) -> tuple[str, ...]:
    """All that a certificate of an arm takes for granted, each to follow "that"."""
    return tuple(_assumed(run, arm, aloud=None))


def said_aloud(run: Run, arm: Arm) -> tuple[str, ...]:
    """The part of it that the sentence says."""
    return tuple(_assumed(run, arm, aloud=True))


def _assumed(run: Run, arm: Arm, aloud: bool | None) -> Iterator[str]:
    yield from Fingerprint.of(arm.spec.fingerprint).assumes
    for assumption in ASSUMPTIONS:
        text = assumption.text(run, arm) if aloud in (None, assumption.aloud) else ""
        if text:
            yield text
