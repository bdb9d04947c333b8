"""The texts behind the numbers: a pass over an arm's completions, one part at a time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leakbound.evaluation.views.view import BINS, Text, Texts
from leakbound.store import Arm, ArmScores
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
    scores = [read_table(arm.scores_file(slug))["score"] for slug in slugs]
    drawn = _scored(map(arm.completions, arm.parts), scores)
    tallies: dict[str, dict[str, _Tally]] = {}
    for part, events, draws in zip(arm.parts, _explored(arm, slugs), drawn, strict=True):
        for row, given in chain(events, draws):
            if _is_output(row):
                tally = tallies.setdefault(row["query_id"], {})
                tally.setdefault(row["text"], _Tally(given)).add(row)
        for query_id in part.query_ids:
            if last[query_id] == part.number:
                yield query_id, _texts(tallies.pop(query_id, {}), missing[query_id])


Scored = list[tuple[dict[str, Any], tuple[float | None, ...]]]
"""Rows of a table, each with a score for each scorer."""
_NAMES = {"query_id", "text", "count", "logprob", "mass", "ended"}


def _scored(tables: Iterable[pa.Table], scores: Sequence[pa.ChunkedArray]) -> Iterator[Scored]:
    """Each of these tables; scores stand in the order of their rows."""
    start = 0
    for table in tables:
        given = [column.slice(start, table.num_rows).to_pylist() for column in scores]
        start += table.num_rows
        rows = table.select([n for n in table.column_names if n in _NAMES]).to_pylist()
        yield list(zip(rows, zip(*given, strict=True), strict=True))


def _is_output(row: Mapping[str, Any]) -> bool:
    """True for a draw, and for a whole output that was explored; one forced alone is neither."""
    return bool(row["count"] if "count" in row else row["ended"] and row["mass"])


def _explored(arm: Arm, slugs: Sequence[str]) -> Iterator[Scored]:
    """The complete outputs that exploring each part found; a range of scores is none."""
    if not arm.explored:
        return repeat([], len(arm.parts))
    ranges = [read_table(arm.masses.ranges_file(slug)) for slug in slugs]
    exact = [pc.if_else(pc.equal(r["low"], r["high"]), r["low"], None) for r in ranges]
    return _scored(arm.masses.tables(), exact)


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


def histograms(scores: ArmScores) -> dict[str, tuple[int, ...]]:
    """The scored draws of each question in each of `BINS` equal bins of [0, 1]."""
    places = np.minimum((scores.scores * BINS + 1e-9).astype(int), BINS - 1)
    bins = np.zeros((len(scores.query_ids), BINS), dtype=np.int64)
    np.add.at(bins, (np.arange(len(bins))[:, None], places), scores.counts)
    return dict(zip(scores.query_ids, map(tuple, bins.tolist()), strict=True))


@dataclass(slots=True)
class _Tally:
    scores: tuple[float | None, ...]
    count: int = 0
    mass: float = 0.0
    logprob: float | None = None

    def add(self, row: Mapping[str, Any]) -> None:
        self.count += row.get("count", 0)
        self.mass += row.get("mass", 0.0)
        known = [p for p in (self.logprob, row.get("logprob")) if p is not None]
        self.logprob = max(known, default=None)

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
