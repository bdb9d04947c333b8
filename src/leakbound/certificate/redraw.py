"""Parts of a run drawn again: were its outputs drawn, or were they made up?

A draw is a function of its key, the prefix and the model, so whoever has the model can make it
again. Which parts are looked at is decided now, by chance of the verifier's own: whoever altered m
of M parts beforehand is not found by f M of them with a probability of at most (1 − f)^m, since
C(M − m, f M) / C(M, f M) is a product of m factors (M − f M − i) / (M − i) ≤ 1 − f.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random, SystemRandom

from leakbound.certificate.checks import Check, Difference, mark
from leakbound.errors import InputError
from leakbound.evaluation.drawing.parts import machine
from leakbound.evaluation.drawing.sample import draws_of
from leakbound.store import Arm, ExploredDraws, ImportedDraws, Part
from leakbound.store.tables import completions_of
from leakbound.text.figures import below
from leakbound.types import Completion, Generate, Measures, Progress, Redraws

NAME = "draws"


def require_share(share: float, model: object) -> None:
    """Refuse a share of parts that is none, and one without a model to draw them again."""
    if not 0 < share <= 1:
        raise InputError(f"the share to draw again lies above 0 and is at most 1, got {share}.")
    if model is None:
        raise InputError(f"to draw {share} of the parts again needs the model. Add --with-model.")


def check_draws(
    arm: Arm, engine: Generate, share: float, progress: Progress, by: Random | None = None
) -> Check:
    """Whether this share of the arm's parts, at least one, holds the draws of their keys.

    Each in the batches in which it was drawn. `by`: what chooses the parts (None: the machine's
    own randomness, which nobody could know beforehand).
    """
    if why := _why_not(arm, engine):
        return Check(NAME, "unchecked", f"nothing was drawn again: {why}")
    assert isinstance(engine, Redraws)
    if isinstance(engine, Measures):
        engine.measure(arm.queries)
    parts = (by or SystemRandom()).sample(arm.parts, math.ceil(share * len(arm.parts)))
    differing = list[Difference]()
    excused = altered = 0
    try:
        for i, part in enumerate(parts):
            progress("drawing again", i, len(parts), "parts")
            found, near = _compare(arm, part, engine)
            differing, excused, altered = differing + found, excused + near, altered + bool(found)
    except InputError as error:
        return Check(NAME, "unchecked", f"nothing was drawn again: {error}")
    progress("drawing again", len(parts), len(parts), "parts")
    return Check(NAME, mark(differing), _says(arm, parts, altered, excused), tuple(differing))


def _why_not(arm: Arm, engine: Generate) -> str | None:
    """Why the draws of an arm cannot be made again by this engine; None where they can."""
    if isinstance(arm.spec.draws, ImportedDraws):
        return "another tool drew them"
    if isinstance(arm.spec.draws, ExploredDraws):
        return "they are from what an exploration left, whose parts depend on its scorer"
    if not isinstance(engine, Redraws):
        return f"the engine {type(engine).__name__} draws otherwise each time"
    drawn_on = {("device", meta.machine.get("device")) for meta in arm.meta()}
    then = [("engine", arm.spec.fingerprint.get("engine")), *sorted(drawn_on, key=str)]
    told = {**engine.fingerprint, **machine(engine)}
    for name, value in [*then, ("dtype", arm.spec.fingerprint.get("dtype"))]:
        if told.get(name) != value:
            return f"its {name} was {value}, this one's is {told.get(name)}"
    return None


def _compare(arm: Arm, part: Part, engine: Redraws) -> tuple[list[Difference], int]:
    """Where a part differs from its draws, and how often roundings were allowed for."""
    queries = {query.id: query for query in arm.queries}
    stored: dict[str, list[Completion]] = {query_id: [] for query_id in part.query_ids}
    for query_id, completion in completions_of(arm.completions(part)):
        if completion.count:
            stored.setdefault(query_id, []).append(completion)
    asked = [queries[query_id] for query_id in part.query_ids]
    found = list(engine.redraw(asked, arm.decoding, draws_of(arm, part), stored))
    told = [
        Difference(
            f"question {one.query.id!r}, part {part.number}",
            "its outputs",
            f"other draws after {one.differs_after} tokens",
        )
        for one in found
        if one.differs_after is not None
    ]
    strangers = sorted(set(stored) - set(part.query_ids))
    told += [Difference(f"part {part.number}", f"outputs of {q!r}", "none") for q in strangers]
    return told, sum(one.excused for one in found)


def _says(arm: Arm, parts: Sequence[Part], altered: int, excused: int) -> str:
    share = len(parts) / len(arm.parts)
    one, three, ten = (below(1 - (1 - share) ** m) for m in (1, 3, 10))
    edge = f"; {excused:,} splits within the margin of an edge" if excused else ""
    return (
        f"parts drawn again: {len(parts):,} of {len(arm.parts):,}, chosen by chance now; with the "
        f"draws that their keys make: {len(parts) - altered:,} "
        f"({sum(part.draws for part in parts):,} draws looked at{edge}). Had one part been "
        f"altered, this would find it with probability {one}, some of three with {three}, of ten "
        f"with {ten} at least. It does not find a seed that was chosen among many"
    )
