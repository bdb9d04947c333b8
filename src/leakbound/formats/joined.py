"""Several files of samples as one body of draws, refused where they do not belong together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from leakbound.errors import InputError
from leakbound.formats.copies import repeats_itself, require_no_copies
from leakbound.formats.imported import ImportedLog, ImportedQuestion, same_settings
from leakbound.formats.spool import Chained
from leakbound.types import Decoding


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """Draws of one model under one decoding, the same number n of every question.

    `sampled_by` says what is known of how they were drawn; `notes` what casts doubt on them.
    `scorers` are those whose scores the draws have; without `texts` they have nothing else.
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


def join(logs: Sequence[ImportedLog]) -> Imported:
    """The draws of all logs, those of a question one after the other.

    Raises InputError where model, decoding, a question's text or the numbers of draws differ, or
    draws can only be copies. A greedy decoding has one output: several that agree become one.
    """
    _require_same_law(logs)
    require_no_copies(logs)
    notes = _doubts(logs)
    asked = _joined(logs)
    first = logs[0]
    if first.decoding.greedy:
        asked = tuple(map(_greedy, asked))
    return Imported(
        asked=asked,
        decoding=first.decoding,
        n=_same_n(asked),
        model=first.model,
        sampled_by=", ".join(dict.fromkeys(log.tool for log in logs)),
        stated=_stated(logs),
        notes=tuple(dict.fromkeys([*(note for log in logs for note in log.notes), *notes])),
        scorers=tuple(dict.fromkeys(name for log in logs for name in log.scorers)),
        texts=first.texts,
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
