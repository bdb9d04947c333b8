"""The texts behind the numbers: a pass over an arm's completions, and which of their words leak."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from leakbound.evaluation.scoring.score import slug
from leakbound.evaluation.views.view import Question, Text, Texts
from leakbound.scorers import make_scorer
from leakbound.store import Arm
from leakbound.text.counting import visible
from leakbound.text.keywords import answer_keywords

_MANY = 1_000  # questions × models


def shown_each(questions: int, models: int) -> int:
    """How many texts of a question are shown for being frequent, and how many for their score."""
    return 8 if questions * models <= _MANY else 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """A question's distinct texts, the likeliest first: a place each in every column.

    `scores` has a row a scorer, NaN where it could not decide; `logprobs` are NaN where not known.
    `drawn` counts all draws, those that never came among them.
    """

    texts: pa.StringArray
    counts: NDArray[np.int64]
    masses: NDArray[np.float64]
    logprobs: NDArray[np.float64]
    scores: NDArray[np.float64]
    drawn: int

    def __len__(self) -> int:
        return len(self.texts)

    def text(self, i: int) -> Text:
        """The i-th of them."""
        thought, thinks, answer = self.texts[i].as_py().rpartition(_ANSWER)
        return Text(
            text=f"[thought] {thought} [answer] {answer}" if thinks else answer,
            parts=(thought, answer) if thinks else None,
            count=int(self.counts[i]),
            share=int(self.counts[i]) / max(self.drawn, 1),
            mass=float(self.masses[i]),
            logprob=_known(self.logprobs[i]),
            scores=tuple(map(_known, self.scores[:, i])),
        )


def distinct_texts(arm: Arm, slugs: Sequence[str]) -> Iterator[tuple[str, list[Text]]]:
    """Each question's distinct texts, the likeliest first, scored by the scorers of `slugs`."""
    for query_id, tally in tallies(arm, slugs):
        yield query_id, [tally.text(i) for i in range(len(tally))]


def tallies(arm: Arm, slugs: Sequence[str]) -> Iterator[tuple[str, Tally]]:
    """Each question's distinct texts, tallied.

    Explored ones come by their mass, before draws by their number; true answers that were only
    teacher-forced are no draws. Holds the texts of the questions that have parts to come.
    """
    last = {query_id: part.number for part in arm.parts for query_id in part.query_ids}
    missing: Counter[str] = Counter()
    for meta in arm.meta():
        missing.update(meta.missing)
    scores = [arm.scored.stored.table(slug)["score"] for slug in slugs]
    waiting: list[pa.Table] = []
    drawn = _scored(map(arm.completions, arm.parts), scores)
    for part, events, draws in zip(arm.parts, _explored(arm, slugs), drawn, strict=True):
        table = _distinct([*waiting, *events, draws], len(slugs))
        done = [query_id for query_id in part.query_ids if last[query_id] == part.number]
        complete = pc.is_in(table["query_id"], pa.array(done, pa.string()))
        waiting = [table.filter(pc.invert(complete))]
        yield from _split(table.filter(complete), done, missing)


_ROWS = pa.schema(
    [
        *((name, pa.string()) for name in ("query_id", "text")),
        ("count", pa.int64()),
        *((name, pa.float64()) for name in ("mass", "logprob")),
    ]
)
"""The columns read of draws and of explored outputs; 0 or nothing where a table lacks one."""


def _scored(tables: Iterable[pa.Table], scores: Sequence[pa.ChunkedArray]) -> Iterator[pa.Table]:
    """The outputs of each of these tables; scores stand in the order of their rows."""
    start = 0
    for table in tables:
        rows = _rows(table)
        for i, column in enumerate(scores):
            rows = rows.append_column(_score(i), column.slice(start, table.num_rows))
        start += table.num_rows
        yield rows.filter(_is_output(table))


def _score(i: int) -> str:
    return f"score {i}"


def _rows(table: pa.Table) -> pa.Table:
    absent = {"count": 0, "mass": 0.0}

    def column(name: str, kind: pa.DataType) -> pa.Array:
        if name == "text":
            return _whole_texts(table)
        if name in table.column_names:
            return table[name].cast(kind)
        return pa.repeat(pa.scalar(absent.get(name), kind), table.num_rows)

    return pa.table([column(field.name, field.type) for field in _ROWS], schema=_ROWS)


_ANSWER = "\x1e[answer]\x1e"  # between thought and answer in a column of texts


def _whole_texts(table: pa.Table) -> pa.ChunkedArray:
    """The answer of each output, with its visible thought where it has one."""
    if table["thought"].null_count == table.num_rows:
        return table["answer"]
    pairs = zip(*(table[name].to_pylist() for name in ("answer", "thought")), strict=True)
    whole = (f"{t}{_ANSWER}{a}" if visible(t) else a for a, t in pairs)
    return pa.array(whole, pa.string())


def _is_output(table: pa.Table) -> pa.ChunkedArray:
    """True for a draw, and for a whole output that was explored; one forced alone is neither."""
    if "count" in table.column_names:
        return pc.greater(table["count"], 0)
    return pc.and_(table["ended"], pc.not_equal(table["mass"], 0.0))


def _explored(arm: Arm, slugs: Sequence[str]) -> Iterator[list[pa.Table]]:
    """The complete outputs that exploring each part found; a range of scores is none."""
    if not arm.explored:
        return repeat([], len(arm.parts))
    ranges = [arm.masses.ranges.table(slug) for slug in slugs]
    exact = [pc.if_else(pc.equal(r["low"], r["high"]), r["low"], None) for r in ranges]
    return ([table] for table in _scored(arm.masses.tables(), exact))


def _distinct(tables: Sequence[pa.Table], scorers: int) -> pa.Table:
    """A row for each text of a query, in the order they came, with all its draws and mass."""
    of_first = pc.ScalarAggregateOptions(skip_nulls=False)
    scores = [_score(i) for i in range(scorers)]
    grouped = (
        pa.concat_tables(tables)
        .group_by(["query_id", "text"], use_threads=False)
        .aggregate(
            [
                *(("count", "sum"), ("mass", "sum"), ("logprob", "max")),
                *((name, "first", of_first) for name in scores),
            ]
        )
    )
    names = ["query_id", "text", "count_sum", "mass_sum", "logprob_max"]
    return grouped.select([*names, *(f"{name}_first" for name in scores)]).rename_columns(
        [*_ROWS.names, *scores]
    )


def _split(
    table: pa.Table, query_ids: Sequence[str], missing: Mapping[str, int]
) -> Iterator[tuple[str, Tally]]:
    """The texts of each of these queries, the likeliest first."""
    place = pc.index_in(table["query_id"], pa.array(query_ids, pa.string())).to_numpy()
    order = np.lexsort((-table["count"].to_numpy(), -table["mass"].to_numpy(), place))
    table = table.take(pa.array(order))
    texts = table["text"].combine_chunks()
    counts, masses, logprobs, *scores = (column.to_numpy() for column in table.columns[2:])
    starts = np.searchsorted(place[order], np.arange(len(query_ids) + 1)).tolist()
    for query_id, start, end in zip(query_ids, starts, starts[1:], strict=False):
        rows = slice(start, end)
        yield (
            query_id,
            Tally(
                texts=texts[rows],
                counts=counts[rows],
                masses=masses[rows],
                logprobs=logprobs[rows].astype(np.float64),
                scores=np.array([column[rows] for column in scores], dtype=np.float64),
                drawn=int(counts[rows].sum()) + missing.get(query_id, 0),
            ),
        )


def shown_texts(
    arm: Arm, greedy: Arm | None, scorers: Sequence[str], count: int, redact: bool
) -> Iterator[tuple[str, Texts]]:
    """The texts shown of every question, `count` of each kind, beside its greedy answer."""
    slugs = [slug(make_scorer(name)) for name in scorers]
    tallied = tallies(greedy, slugs) if greedy else ()
    answers = {query_id: tally.text(0) for query_id, tally in tallied if len(tally)}
    for query_id, tally in tallies(arm, slugs):
        yield query_id, chosen_texts(tally, answers.get(query_id), count, redact)


def chosen_texts(tally: Tally, greedy: Text | None, count: int, redact: bool) -> Texts:
    """The most frequent texts, then of the others those that score highest, the first scorer's.

    `count`: how many of each kind.
    """
    frequent = min(count, len(tally))
    scores = tally.scores[0, frequent:]
    scoring = np.argsort(np.where(scores > 0, -scores, np.inf), kind="stable")
    scoring = scoring[: np.count_nonzero(scores > 0)][:count] + frequent
    shown = [*range(frequent), *scoring.tolist()]
    return Texts(
        greedy=greedy and withheld(greedy, redact),
        shown=tuple(withheld(tally.text(i), redact) for i in shown),
        left_out=len(tally) - len(shown),
        left_out_draws=int(tally.counts.sum() - tally.counts[shown].sum()),
        left_out_mass=math.fsum([*tally.masses.tolist(), *(-tally.masses[shown]).tolist()]),
    )


def withheld(text: Text, redact: bool) -> Text:
    return replace(text, text=None, parts=None) if redact else text


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def leaking_words(question: Question) -> re.Pattern[str] | None:
    """A pattern for the words that give a question's answer away; None where none are known.

    They are its keywords, or else the words of its answer that say something and that the question
    does not hold. They are to be seen in a text; what a text scores is its scorer's to say.
    """
    words = question.keywords or answer_keywords(question.text, question.answer or "")
    parts = [re.sub(r"\s+", r"\\s+", re.escape(w.strip()).replace(r"\ ", " ")) for w in words]
    terms = sorted(filter(None, parts), key=len, reverse=True)  # the longest that fits is marked
    return re.compile(rf"(?<!\w)(?:{'|'.join(terms)})(?!\w)", re.IGNORECASE) if terms else None


def excerpt(pattern: re.Pattern[str] | None, text: str, most: int) -> str:
    """A text of at most so many characters, or those around the first place that leaks."""
    match = pattern.search(text) if pattern and len(text) > most else None
    start = 0 if match is None else min(max(match.start() - most // 2, 0), len(text) - most)
    return f"…{text[start:]}" if start else text


def pieces(pattern: re.Pattern[str] | None, text: str) -> list[str]:
    """The text in pieces, every second of which leaks; together they are the text.

    Words that leak and stand side by side are one piece.
    """
    parts = [""]
    end = 0
    for match in pattern.finditer(text) if pattern else ():
        between, end = text[end : match.start()], match.end()
        if len(parts) > 1 and between.isspace():
            parts[-2] += between + match[0]
        else:
            parts[-1] += between
            parts += [match[0], ""]
    parts[-1] += text[end:]
    return parts
