"""The texts behind the numbers: a pass over an arm's completions, one group of parts at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from residua.report.view import BINS, Text, Texts
from residua.store import Arm
from residua.store.tables import read_table

MOST_FREQUENT = 8
HIGHEST_SCORED = 8


def distinct_texts(arm: Arm, slugs: Sequence[str]) -> Iterator[tuple[str, list[Text]]]:
    """Each question's distinct texts, the most frequent first, scored by the scorers of `slugs`.

    Holds the texts of one group of questions in memory, never those of the arm.
    """
    columns = [read_table(arm.scores_file(slug))["score"] for slug in slugs]
    start = 0
    for _, parts in groupby(arm.parts, key=lambda part: part.query_ids):
        tallies: dict[str, dict[str, _Tally]] = {}
        for part in parts:
            table = arm.completions(part)
            scores = [c.slice(start, table.num_rows).to_pylist() for c in columns]
            start += table.num_rows  # scores stand in the order of the parts
            names = ("query_id", "text", "count", "logprob")
            for query_id, text, count, logprob, *given in zip(
                *(table[name].to_pylist() for name in names), *scores, strict=True
            ):
                tally = tallies.setdefault(query_id, {}).setdefault(text, _Tally(tuple(given)))
                tally.add(count, logprob)
        for query_id, found in tallies.items():
            texts = [tally.text(text, arm.plan.n) for text, tally in found.items()]
            yield query_id, sorted(texts, key=lambda text: -text.count)


def chosen_texts(texts: Sequence[Text], greedy: Text | None, redact: bool) -> Texts:
    """The most frequent texts, then of the others those that score highest, the first scorer's."""
    frequent, others = list(texts[:MOST_FREQUENT]), texts[MOST_FREQUENT:]
    scoring = sorted((t for t in others if t.scores[0]), key=lambda text: -(text.scores[0] or 0))
    shown = frequent + scoring[:HIGHEST_SCORED]
    return Texts(
        greedy=greedy and _withheld(greedy, redact),
        shown=tuple(_withheld(text, redact) for text in shown),
        left_out=len(texts) - len(shown),
        left_out_draws=sum(t.count for t in texts) - sum(t.count for t in shown),
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
    logprob: float | None = None

    def add(self, count: int, logprob: float | None) -> None:
        self.count += count
        if logprob is not None:
            self.logprob = logprob if self.logprob is None else max(self.logprob, logprob)

    def text(self, text: str, n: int) -> Text:
        return Text(
            text=text,
            count=self.count,
            share=self.count / n,
            logprob=self.logprob,
            scores=self.scores,
        )


def _withheld(text: Text, redact: bool) -> Text:
    return replace(text, text=None) if redact else text
