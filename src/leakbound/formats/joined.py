"""Several files of samples as one body of draws, refused where they do not belong together.

Draws that can only be copies are the same run of them twice, in one file or in two. Calls seeded
with s and s + 1 share all draws but one on servers that seed draw i with s + i, and a cache keyed
without the number of the draw gives the same ones again. Probabilities are not known here, so the
order tells: if two stretches agree draw by draw at every question, the chance of that is about the
product of the texts' shares among the question's draws. Texts that are always the same tell
nothing: a peaked model draws them too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from leakbound.errors import InputError
from leakbound.formats.imported import Draw, ImportedLog, ImportedQuestion, same_settings
from leakbound.formats.spool import Chained
from leakbound.types import Decoding


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """Draws of one model under one decoding, the same number n of every question.

    `sampled_by` says what is known of how they were drawn; `notes` what casts doubt on them.
    `scorers` are those whose scores the draws have; without `texts` they have nothing else.
    `claim` ended a question's draws, n at most; empty: n were drawn of each.
    """

    asked: tuple[ImportedQuestion, ...]
    decoding: Decoding
    n: int
    model: str
    sampled_by: str
    stated: dict[str, object]
    notes: tuple[str, ...]
    scorers: tuple[str, ...]
    texts: bool
    claim: str = ""


def join(logs: Sequence[ImportedLog]) -> Imported:
    """The draws of all logs, those of a question one after the other.

    Raises InputError where model, decoding, a question's text or the numbers of draws differ, or
    draws can only be copies. A greedy decoding has one output: several that agree become one.
    """
    _require_same_law(logs)
    if len(logs) > 1 and any(log.claim for log in logs):
        raise InputError(
            "draws that a claim ended cannot be joined to others: how many there are depends on "
            "what was drawn. Import that log as a run of its own."
        )
    require_no_copies(logs)
    notes = _doubts(logs)
    asked = _joined(logs)
    first = logs[0]
    if first.decoding.greedy:
        asked = tuple(map(_greedy, asked))
    return Imported(
        asked=asked,
        decoding=first.decoding,
        n=first.most if first.claim else _same_n(asked),
        model=first.model,
        sampled_by=", ".join(dict.fromkeys(log.tool for log in logs)),
        stated=_stated(logs),
        notes=tuple(dict.fromkeys([*(note for log in logs for note in log.notes), *notes])),
        scorers=tuple(dict.fromkeys(name for log in logs for name in log.scorers)),
        texts=first.texts,
        claim=first.claim,
    )


def _require_same_law(logs: Sequence[ImportedLog]) -> None:
    """Refuse logs of two models or decodings. Seeds may differ: that is how to draw more."""
    first = logs[0]
    if odd := next((log for log in logs if log.texts != first.texts), None):
        raise InputError(
            f"`{first.path}` and `{odd.path}` cannot be one body of draws: one has texts, the "
            "other scores alone. Import them as two runs."
        )
    of_any = {"seed": None, "order": None}
    same_settings({f"`{log.path}`": {"model": log.model, **log.stated, **of_any} for log in logs})


def _stated(logs: Sequence[ImportedLog]) -> dict[str, object]:
    """The settings beside the decoding, the seeds of all logs among them."""
    seeds = dict.fromkeys(str(log.stated["seed"]) for log in logs if "seed" in log.stated)
    others = {key: value for key, value in logs[0].others.items() if key != "seed"}
    if any(log.stated.get("order") != others.get("order") for log in logs):
        others.pop("order", None)  # draws of several runs have an order of their own
    return others | ({"seed": " and ".join(seeds)} if seeds else {})


def _joined(logs: Sequence[ImportedLog]) -> tuple[ImportedQuestion, ...]:
    found: dict[str, tuple[ImportedLog, list[ImportedQuestion]]] = {}
    for log in logs:
        for one in log.asked:
            source, known = found.setdefault(one.id, (log, []))
            known.append(one)
            if (known[0].text, known[0].answers) != (one.text, one.answers):
                raise InputError(
                    f"question {one.id!r} has another text or target in `{log.path}` than in "
                    f"`{source.path}`. Import them as two runs."
                )
    return tuple(
        known[0]
        if len(known) == 1
        else replace(known[0], draws=Chained([one.draws for one in known]))
        for _, known in found.values()
    )


def _same_n(asked: Sequence[ImportedQuestion]) -> int:
    sizes = {len(one.draws): one.id for one in asked}
    if len(sizes) != 1 or 0 in sizes:
        told = ", ".join(f"{n} of {id!r}" for n, id in sorted(sizes.items())[:3])
        raise InputError(
            f"every question must have as many draws as every other, got {told or 'none'}. Give "
            "the same number of each, those that failed as missing."
        )
    return next(iter(sizes))


def _greedy(one: ImportedQuestion) -> ImportedQuestion:
    texts = {draw.output: draw for draw in one.draws if draw is not None}
    if len(texts) > 1:
        raise InputError(
            f"a greedy decoding has one output, got {len(texts)} for question {one.id!r}. What "
            "drew them was not greedy: find out its temperature, and import them under that."
        )
    return replace(one, draws=(next(iter(texts.values()), None),))


def _doubts(logs: Sequence[ImportedLog]) -> list[str]:
    """Refuse draws that a fixed seed made all alike; what else is suspicious, in words."""
    found = []
    for log in logs:
        if log.decoding.greedy:
            continue
        seed = log.stated.get("seed")
        if repeats_itself(log):
            if seed is not None:
                raise InputError(
                    f"all draws of every question in `{log.path}` are the same, and all were made "
                    f"with the seed {seed}: they are one draw, not many. Draw anew without a seed."
                )
            found.append(
                f"all draws of every question in `{log.path.name}` are the same: right for a "
                "peaked model, and also what a cache or a server that repeats itself gives"
            )
        elif seed is not None:
            found.append(
                f"`{log.path.name}` states one seed, {seed}, for all draws: they are independent "
                "only if the server did not start each from it"
            )
    return found


LEVEL = 1e-9
_MISSING = -1
_FIRST = 64  # draws that are looked at before all: most shifts differ there


def require_no_copies(logs: Sequence[ImportedLog]) -> None:
    """Raise InputError where draws of one log stand again in it, or in another of the logs."""
    ordered = [(log.path, _outputs(log)) for log in logs if log.ordered]
    for (path, one), (other_path, other) in combinations_with_replacement(ordered, 2):
        found = _shift_that_copies(one, other)
        if found is not None:
            shift, texts = found
            again = "again" if one is other else f"in `{other_path}`"
            raise InputError(
                f"draws are copies of one another, so no bound would hold for them: {texts:,} "
                f"draws of `{path}` stand {again}, in the same order, {abs(shift)} places "
                "on. Draw anew without a fixed seed and without a cache."
            )


def repeats_itself(log: ImportedLog) -> bool:
    """True if every question was drawn more than once and gave one text only."""
    if not log.texts:
        return False
    return all(_repeats_itself(one.draws) for one in log.asked)


def _repeats_itself(draws: Iterable[Draw | None]) -> bool:
    """True if there are several outputs, all the same."""
    outputs = (draw.output for draw in draws if draw is not None)
    first, second = next(outputs, None), next(outputs, None)
    return first == second is not None and all(output == first for output in outputs)


Outputs = Mapping[str, NDArray[np.int64]]
"""A number for each draw of a question, by its id: the same for the same output alone."""


def _outputs(log: ImportedLog) -> Outputs:
    """The outputs' hashes, of 64 bits; scores are no part: a copy may have been judged otherwise.

    Two outputs of one hash would be taken for one. That could find copies only where all others
    agree too.
    """
    return {
        one.id: np.fromiter(map(_hash, one.draws), dtype=np.int64, count=len(one.draws))
        for one in log.asked
    }


def _hash(draw: Draw | None) -> int:
    return _MISSING if draw is None else hash(draw.output)  # which is never -1


def _shift_that_copies(one: Outputs, other: Outputs) -> tuple[int, int] | None:
    """The shift at which two logs agree beyond chance, and at how many draws."""
    pairs = list(_coded(one, other))
    longest = max((max(len(a), len(b)) for a, b, _ in pairs), default=0)
    shifts = range(1 if one is other else 1 - longest, longest)
    for shift in sorted(shifts, key=abs):
        logarithm, texts = 0.0, 0
        for a, b, shares in pairs:
            ours, theirs = a[max(shift, 0) :], b[max(-shift, 0) :]
            length = min(len(ours), len(theirs))
            ours, theirs = ours[:length], theirs[:length]
            if not (_agree(ours[:_FIRST], theirs[:_FIRST]) and _agree(ours, theirs)):
                break
            known = (ours != _MISSING) & (theirs != _MISSING)
            logarithm += float(shares[ours[known]].sum())
            texts += int(known.sum())
        else:
            if logarithm < math.log(LEVEL):
                return shift, texts
    return None


def _agree(ours: NDArray[np.int32], theirs: NDArray[np.int32]) -> bool:
    known = (ours != _MISSING) & (theirs != _MISSING)
    return np.array_equal(ours[known], theirs[known])


Coded = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]


def _coded(one: Outputs, other: Outputs) -> Iterator[Coded]:
    """The draws of each question both have as numbers, and the logarithms of the texts' shares.

    The most diverse questions come first: they tell soonest that two stretches differ.
    """
    found: list[tuple[int, Coded]] = []
    for id, ours in one.items():
        if id not in other:
            continue
        theirs = other[id]
        both = ours if one is other else np.concatenate([ours, theirs])
        kinds, counts = np.unique(both[both != _MISSING], return_counts=True)
        if len(kinds) < 2:
            continue
        a = _codes(ours, kinds)
        b = a if one is other else _codes(theirs, kinds)
        found.append((len(kinds), (a, b, np.log(counts / counts.sum()))))
    yield from (coded for _, coded in sorted(found, key=lambda pair: -pair[0]))


def _codes(outputs: NDArray[np.int64], kinds: NDArray[np.int64]) -> NDArray[np.int32]:
    places = np.searchsorted(kinds, outputs).astype(np.int32)
    return np.where(outputs == _MISSING, np.int32(_MISSING), places)
