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

    Attributes:
        asked: the questions with their draws.
        decoding: the distribution that was drawn from.
        n: draws of each question; with a claim, at most.
        model: as the files call it.
        sampled_by: the tools that drew them.
        stated: settings that the files state beside the decoding.
        notes: what casts doubt on the draws.
        scorers: the names of the scores that the draws have.
        texts: False where they have scores alone.
        claim: whose decision ended a question's draws; empty: n were drawn of each.
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
    questions = _joined(logs)
    first = logs[0]
    if first.decoding.greedy:
        questions = tuple(map(_greedy, questions))
    return Imported(
        asked=questions,
        decoding=first.decoding,
        n=first.most if first.claim else _same_n(questions),
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
    by_id: dict[str, tuple[ImportedLog, list[ImportedQuestion]]] = {}
    for log in logs:
        for question in log.asked:
            source, pieces = by_id.setdefault(question.id, (log, []))
            pieces.append(question)
            if (pieces[0].text, pieces[0].answers) != (question.text, question.answers):
                raise InputError(
                    f"question {question.id!r} has another text or target in `{log.path}` than in "
                    f"`{source.path}`. Import them as two runs."
                )
    return tuple(
        pieces[0]
        if len(pieces) == 1
        else replace(pieces[0], draws=Chained([piece.draws for piece in pieces]))
        for _, pieces in by_id.values()
    )


def _same_n(questions: Sequence[ImportedQuestion]) -> int:
    sizes = {len(q.draws): q.id for q in questions}
    if len(sizes) != 1 or 0 in sizes:
        counts = ", ".join(f"{n} of {id!r}" for n, id in sorted(sizes.items())[:3])
        raise InputError(
            f"every question must have as many draws as every other, got {counts or 'none'}. Give "
            "the same number of each, those that failed as missing."
        )
    return next(iter(sizes))


def _greedy(question: ImportedQuestion) -> ImportedQuestion:
    texts = {_read(draw): draw for draw in question.draws if draw is not None}
    if len(texts) > 1:
        raise InputError(
            f"a greedy decoding has one output, got {len(texts)} for question {question.id!r}. "
            "What drew them was not greedy: find out its temperature, and import them under that."
        )
    return replace(question, draws=(next(iter(texts.values()), None),))


def _doubts(logs: Sequence[ImportedLog]) -> list[str]:
    """Refuse draws that a fixed seed made all alike; what else is suspicious, in words."""
    doubts = []
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
            doubts.append(
                f"all draws of every question in `{log.path.name}` are the same: right for a "
                "peaked model, and also what a cache or a server that repeats itself gives"
            )
        elif seed is not None:
            doubts.append(
                f"`{log.path.name}` states one seed, {seed}, for all draws: they are independent "
                "only if the server did not start each from it"
            )
    return doubts


LEVEL = 1e-9
_MISSING = -1
_FIRST = 64  # draws that are looked at before all: most shifts differ there


def require_no_copies(logs: Sequence[ImportedLog]) -> None:
    """Raise InputError where draws of one log stand again in it, or in another of the logs."""
    ordered = [(log.path, _outputs(log)) for log in logs if log.ordered]
    for (path, outputs), (other_path, other) in combinations_with_replacement(ordered, 2):
        copy = _shift_that_copies(outputs, other)
        if copy is not None:
            shift, texts = copy
            again = "again" if outputs is other else f"in `{other_path}`"
            raise InputError(
                f"draws are copies of one another, so no bound would hold for them: {texts:,} "
                f"draws of `{path}` stand {again}, in the same order, {abs(shift)} places "
                "on. Draw anew without a fixed seed and without a cache."
            )


def repeats_itself(log: ImportedLog) -> bool:
    """True if every question was drawn more than once and gave one text only."""
    if not log.texts:
        return False
    return all(_repeats_itself(question.draws) for question in log.asked)


def _repeats_itself(draws: Iterable[Draw | None]) -> bool:
    """True if there are several outputs, all the same."""
    outputs = (_read(draw) for draw in draws if draw is not None)
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
        q.id: np.fromiter(map(_hash, q.draws), dtype=np.int64, count=len(q.draws))
        for q in log.asked
    }


def _hash(draw: Draw | None) -> int:
    return _MISSING if draw is None else hash(_read(draw))  # which is never -1


def _read(draw: Draw) -> tuple[str, str | None]:
    """The texts of a draw: two outputs with the same texts are the same, whatever is counted."""
    return draw.output.answer, draw.output.thought


def _shift_that_copies(outputs: Outputs, other: Outputs) -> tuple[int, int] | None:
    """The shift at which two logs agree beyond chance, and at how many draws."""
    pairs = list(_coded(outputs, other))
    longest = max((max(len(a), len(b)) for a, b, _ in pairs), default=0)
    shifts = range(1 if outputs is other else 1 - longest, longest)
    for shift in sorted(shifts, key=abs):
        logarithm, texts = 0.0, 0
        for a, b, shares in pairs:
            ours, theirs = a[max(shift, 0) :], b[max(-shift, 0) :]
            length = min(len(ours), len(theirs))
            ours, theirs = ours[:length], theirs[:length]
            if not (_agree(ours[:_FIRST], theirs[:_FIRST]) and _agree(ours, theirs)):
                break
            mask = (ours != _MISSING) & (theirs != _MISSING)
            logarithm += float(shares[ours[mask]].sum())
            texts += int(mask.sum())
        else:
            if logarithm < math.log(LEVEL):
                return shift, texts
    return None


def _agree(ours: NDArray[np.int32], theirs: NDArray[np.int32]) -> bool:
    mask = (ours != _MISSING) & (theirs != _MISSING)
    return np.array_equal(ours[mask], theirs[mask])


Coded = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]


def _coded(outputs: Outputs, other: Outputs) -> Iterator[Coded]:
    """The draws of each question both have as numbers, and the logarithms of the texts' shares.

    The most diverse questions come first: they tell soonest that two stretches differ.
    """
    pairs: list[tuple[int, Coded]] = []
    for id, ours in outputs.items():
        if id not in other:
            continue
        theirs = other[id]
        both = ours if outputs is other else np.concatenate([ours, theirs])
        kinds, counts = np.unique(both[both != _MISSING], return_counts=True)
        if len(kinds) < 2:
            continue
        a = _codes(ours, kinds)
        b = a if outputs is other else _codes(theirs, kinds)
        pairs.append((len(kinds), (a, b, np.log(counts / counts.sum()))))
    yield from (coded for _, coded in sorted(pairs, key=lambda pair: -pair[0]))


def _codes(outputs: NDArray[np.int64], kinds: NDArray[np.int64]) -> NDArray[np.int32]:
    places = np.searchsorted(kinds, outputs).astype(np.int32)
    return np.where(outputs == _MISSING, np.int32(_MISSING), places)
