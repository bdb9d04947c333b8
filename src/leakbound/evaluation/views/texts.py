"""The texts behind the numbers: a pass over an arm's completions, one part at a time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import pyarrow as pa

from leakbound.evaluation.views.view import BINS, Text, Texts
from leakbound.store import Arm
from leakbound.store.tables import read_table

MOST_FREQUENT = 8
HIGHEST_SCORED = 8


def distinct_texts(arm: Arm, slugs: Sequence[str]) -> Iterator[tuple[str, list[Text]]]:
    """Each question's distinct texts, the likeliest first, scored by the scorers of `slugs`.

    Explored ones come by their mass, before draws by their number; true answers that were only
    teacher-forced are no draws. Holds the texts of the questions that have parts to come.
    """
    last = {query_id: part.number for part in arm.parts for query_id in part.query_ids}
    missing: Counter[str] = Counter()
    for meta in arm.meta():
        missing.update(meta.missing)
    tallies: dict[str, dict[str, _Tally]] = {}
    for part, draws, events in zip(
        arm.parts, _drawn(arm, slugs), _explored(arm, slugs), strict=True
    ):
        for query_id, text, count, mass, logprob, scores in chain(events, draws):
            tally = tallies.setdefault(query_id, {}).setdefault(text, _Tally(scores))
            tally.add(count, mass, logprob)
        for query_id in part.query_ids:
            if last[query_id] == part.number:
                yield query_id, _texts(tallies.pop(query_id, {}), missing[query_id])


Found = tuple[str, str, int, float, float | None, tuple[float | None, ...]]
"""Query id, text, count, mass, log-probability, and a score for each scorer."""


def _drawn(arm: Arm, slugs: Sequence[str]) -> Iterator[list[Found]]:
    """The draws of each part."""
    columns = [read_table(arm.scores_file(slug))["score"] for slug in slugs]
    start = 0
    for part in arm.parts:
        table = arm.completions(part)
        names = ("query_id", "text", "count", "logprob")
        rows = zip(*(table[name].to_pylist() for name in names), strict=True)
        given = [c.slice(start, table.num_rows).to_pylist() for c in columns]
        start += table.num_rows  # scores stand in the order of the parts
        scored = zip(rows, zip(*given, strict=True), strict=True)
        yield [(q, text, n, 0.0, logprob, s) for (q, text, n, logprob), s in scored if n]


def _explored(arm: Arm, slugs: Sequence[str]) -> Iterator[list[Found]]:
    """The complete outputs that exploring each part found; a range of scores is none."""
    if not arm.explored:
        yield from ([] for _ in arm.parts)
        return
    ranges = [read_table(arm.masses.ranges_file(slug)) for slug in slugs]
    start = 0
    for table in arm.masses.tables():
        names = ("query_id", "text", "mass", "ended")
        rows = zip(*(table[name].to_pylist() for name in names), strict=True)
        given = [_exact(found.slice(start, table.num_rows)) for found in ranges]
        start += table.num_rows
        scored = zip(rows, zip(*given, strict=True), strict=True)
        yield [
            (q, text, 0, mass, None, s) for (q, text, mass, ended), s in scored if ended and mass
        ]


def _exact(ranges: pa.Table) -> list[float | None]:
    ends = zip(ranges["low"].to_pylist(), ranges["high"].to_pylist(), strict=True)
    return [low if low == high else None for low, high in ends]


def _texts(tallies: Mapping[str, _Tally], missing: int) -> list[Text]:
    drawn = sum(tally.count for tally in tallies.values()) + missing
    texts = [tally.text(text, drawn) for text, tally in tallies.items()]
    return sorted(texts, key=lambda text: (-text.mass, -text.count))


def chosen_texts(texts: Sequence[Text], greedy: Text | None, redact: bool) -> Texts:
    """The most frequent texts, then of the others those that score highest, the first scorer's."""
    frequent, others = list(texts[:MOST_FREQUENT]), texts[MOST_FREQUENT:]
    scoring = sorted((t for t in others if t.scores[0]), key=lambda text: -(text.scores[0] or 0))
    shown = frequent + scoring[:HIGHEST_SCORED]
    return Texts(
        greedy=greedy and withheld(greedy, redact),
        shown=tuple(withheld(text, redact) for text in shown),
        left_out=len(texts) - len(shown),
        left_out_draws=sum(t.count for t in texts) - sum(t.count for t in shown),
        left_out_mass=math.fsum([*(t.mass for t in texts), *(-t.mass for t in shown)]),
    )


def histograms(texts: Iterable[Text], scorers: int) -> list[tuple[int, ...]]:
    """Draws in each of `BINS` equal bins of [0, 1], one histogram a scorer."""
    bins = [[0] * BINS for _ in range(scorers)]
    for text in texts:
        for counts, score in zip(bins, text.scores, strict=True):
            if score is not None:
                counts[min(int(score * BINS + 1e-9), BINS - 1)] += text.count
    return [tuple(counts) for counts in bins]


@dataclass(slots=True)
class _Tally:
    scores: tuple[float | None, ...]
    count: int = 0
    mass: float = 0.0
    logprob: float | None = None

    def add(self, count: int, mass: float, logprob: float | None) -> None:
        self.count += count
        self.mass += mass
        if logprob is not None:
            self.logprob = logprob if self.logprob is None else max(self.logprob, logprob)

    def text(self, text: str, drawn: int) -> Text:
        return Text(
            text=text,
            count=self.count,
            share=self.count / max(drawn, 1),
            mass=self.mass,
            logprob=self.logprob,
            scores=self.scores,
        )


def withheld(text: Text, redact: bool) -> Text:
    return replace(text, text=None) if redact else text
