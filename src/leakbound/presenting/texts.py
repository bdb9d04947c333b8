"""The distinct completions of an arm with their counts, and the words that leak."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leakbound.inputs import evidence
from leakbound.scorers import make_scorer
from leakbound.scoring.score import slug
from leakbound.store import Arm
from leakbound.text.counting import visible
from leakbound.text.keywords import answer_keywords
from leakbound.types import Prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A distinct completion of a question.

    Attributes:
        text: the text of the completion; None if it is withheld.
        count: the number of draws of the question with this text. For an explored completion, only
            draws from the remainder (the unexplored outputs).
        share: `count` as a fraction of the question's draws.
        mass: the known probability of an explored completion; otherwise 0.
        logprob: the log-probability, under the decoding, of the completion's likeliest token
            sequence; None if it is unknown.
        scores: one score per scorer, in [0, 1]; None if the scorer could not decide.
        parts: the visible thought and the answer; None without a visible thought, or if the text
            is withheld.
    """

    text: str | None
    count: int
    share: float
    mass: float
    logprob: float | None
    scores: tuple[float | None, ...]
    parts: tuple[str, str] | None = None

    @property
    def leaks(self) -> bool:
        """True if the score by any scorer is 1."""
        return 1.0 in self.scores


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """The completions of a question that a page shows, and the number of other completions.

    Attributes:
        greedy: the greedy answer, or None.
        shown: the completions that are shown: first the most frequent, then those with the highest
            scores.
        left_out: the number of completions that are not shown.
        left_out_draws: the number of draws of the completions that are not shown.
        left_out_mass: the known probability of the completions that are not shown.
    """

    greedy: Text | None
    shown: tuple[Text, ...]
    left_out: int
    left_out_draws: int
    left_out_mass: float


def texts_in(rows: pa.Table) -> list[Text]:
    """Return a `Text` for each row of a table that `tallies` made."""
    texts = []
    for row in rows.to_pylist():
        _, text, count, mass, logprob, *scores, share = row.values()
        thought, thinks, answer = text.rpartition(_ANSWER)
        texts.append(
            Text(
                text=f"[thought] {thought} [answer] {answer}" if thinks else answer,
                parts=(thought, answer) if thinks else None,
                count=count,
                share=share,
                mass=mass,
                logprob=logprob,
                scores=tuple(scores),
            )
        )
    return texts


def tallies(arm: Arm, slugs: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    """Yield (query id, table) for each query: its distinct texts, the likeliest first.

    The columns of a table are the query, the text, the columns of `_FIGURES`, the scores of each
    scorer in `slugs`, and the count as a fraction of all draws, including missing draws. Explored
    texts come first, sorted by mass. Then come drawn texts, sorted by count. Reference answers that
    were only teacher-forced are omitted. Texts of a query stay in memory until its last part.
    """
    last = {query_id: part.number for part in arm.parts for query_id in part.query_ids}
    missing: Counter[str] = Counter()
    for meta in arm.meta():
        missing.update(meta.missing)
    scores = [arm.scored.stored.table(slug)["score"] for slug in slugs]
    tables = [_scored(map(arm.completions, arm.parts), scores)]
    if arm.explored:
        exact = []
        for ranges in map(arm.masses.ranges.table, slugs):  # a range is no score
            one = pc.equal(ranges["low"], ranges["high"])
            exact.append(pc.if_else(one, ranges["low"], None))
        tables.insert(0, _scored(arm.masses.tables(), exact))
    waiting: list[pa.Table] = []
    for part, *rows in zip(arm.parts, *tables, strict=True):
        table = _distinct([*waiting, *rows], len(slugs))
        done = [query_id for query_id in part.query_ids if last[query_id] == part.number]
        complete = pc.is_in(table["query_id"], pa.array(done, pa.string()))
        waiting = [table.filter(pc.invert(complete))]
        yield from _split(table.filter(complete), done, missing)


_ANSWER = "\x1e[answer]\x1e"  # between thought and answer in a column of texts


def _scored(tables: Iterable[pa.Table], scores: Sequence[pa.ChunkedArray]) -> Iterator[pa.Table]:
    """Yield the outputs of each table with their scores, which are in the order of the rows."""
    start = 0
    for table in tables:
        text = table["answer"]
        if table["thought"].null_count < table.num_rows:  # at least one thought is visible
            pairs = zip(*(table[name].to_pylist() for name in ("answer", "thought")), strict=True)
            whole = (f"{t}{_ANSWER}{a}" if visible(t) else a for a, t in pairs)
            text = pa.array(whole, pa.string())
        columns = {"query_id": table["query_id"].cast(pa.string()), "text": text}
        for name, kind, absent in _FIGURES:
            columns[name] = pa.repeat(pa.scalar(absent, kind), table.num_rows)
            if name in table.column_names:
                columns[name] = table[name].cast(kind)
        for name, column in zip(_score_names(len(scores)), scores, strict=True):
            columns[name] = column.slice(start, table.num_rows)
        start += table.num_rows
        if "count" in table.column_names:
            kept = pc.greater(table["count"], 0)
        else:
            kept = pc.and_(table["ended"], pc.not_equal(table["mass"], 0.0))
        yield pa.table(columns).filter(kept)


_FIGURES = (("count", pa.int64(), 0), ("mass", pa.float64(), 0.0), ("logprob", pa.float64(), None))
"""The columns of draws and of explored outputs, and their value where a table lacks one."""


def _score_names(scorers: int) -> list[str]:
    """Return the names of the columns that contain scores, one per scorer."""
    return [f"score {i}" for i in range(scorers)]


def _distinct(tables: Sequence[pa.Table], scorers: int) -> pa.Table:
    """Merge rows with the same query and text; add up their draws and masses."""
    of_first = pc.ScalarAggregateOptions(skip_nulls=False)
    scores = _score_names(scorers)
    sums = [("count", "sum"), ("mass", "sum"), ("logprob", "max")]
    grouped = pa.concat_tables(tables).group_by(["query_id", "text"], use_threads=False)
    table = grouped.aggregate([*sums, *((name, "first", of_first) for name in scores)])
    names = [*("_".join(pair) for pair in sums), *(f"{name}_first" for name in scores)]
    table = table.select(["query_id", "text", *names])
    return table.rename_columns(["query_id", "text", *(name for name, _ in sums), *scores])


def _split(
    table: pa.Table, query_ids: Sequence[str], missing: Mapping[str, int]
) -> Iterator[tuple[str, pa.Table]]:
    """Yield (query id, table of its texts) for each of these queries, the likeliest text first."""
    place = pc.index_in(table["query_id"], pa.array(query_ids, pa.string())).to_numpy()
    order = np.lexsort((-table["count"].to_numpy(), -table["mass"].to_numpy(), place))
    table = table.take(pa.array(order))
    starts = np.searchsorted(place[order], np.arange(len(query_ids) + 1)).tolist()
    for query_id, start, end in zip(query_ids, starts, starts[1:], strict=False):
        rows = table.slice(start, end - start)
        drawn = (pc.sum(rows["count"]).as_py() or 0) + missing.get(query_id, 0)
        share = pc.divide(rows["count"].cast(pa.float64()), float(max(drawn, 1)))
        yield query_id, rows.append_column("share", share)


def shown_texts(
    arm: Arm, greedy: Arm | None, scorers: Sequence[str], count: int, redact: bool
) -> dict[str, Texts]:
    """Return the greedy answer and the chosen texts (see `chosen_texts`) of each question by id."""
    slugs = [slug(make_scorer(name)) for name in scorers]
    tallied = tallies(greedy, slugs) if greedy else ()
    answers = {query_id: text for query_id, rows in tallied for text in texts_in(rows.slice(0, 1))}
    return {
        query_id: chosen_texts(rows, answers.get(query_id), count, redact)
        for query_id, rows in tallies(arm, slugs)
    }


def chosen_texts(rows: pa.Table, greedy: Text | None, count: int, redact: bool) -> Texts:
    """Return the `count` most frequent texts, then the `count` others with the highest scores.

    Only the score by the first scorer is used. A text with the score 0 is shown only if it is
    frequent.
    """
    counts, masses, scores = (rows[name].to_numpy() for name in ("count", "mass", *_score_names(1)))
    frequent = min(count, len(counts))
    others = scores[frequent:]
    scoring = np.argsort(np.where(others > 0, -others, np.inf), kind="stable")
    scoring = scoring[: np.count_nonzero(others > 0)][:count] + frequent
    shown = [*range(frequent), *scoring.tolist()]
    chosen = texts_in(rows.take(pa.array(shown, pa.int64())))
    return Texts(
        greedy=greedy and withheld(greedy, redact),
        shown=tuple(withheld(text, redact) for text in chosen),
        left_out=len(counts) - len(shown),
        left_out_draws=int(counts.sum() - counts[shown].sum()),
        left_out_mass=math.fsum([*masses.tolist(), *(-masses[shown]).tolist()]),
    )


def withheld(text: Text, redact: bool) -> Text:
    return replace(text, text=None, parts=None) if redact else text


def drawn_sureness(arm: Arm) -> dict[str, float]:
    """Return the mean log-probability, at temperature 1, of the arm's draws of each query by id."""
    return {
        query_id: evidence(completions, "mean_logprob")
        for query_id, completions in arm.drawn_by_query(arm.parts).items()
        if all(completion.model_logprob is not None for completion in completions)
    }


def leaking_words(question: Prompt) -> re.Pattern[str] | None:
    """Return a pattern for the words that reveal a question's answer; None without such words.

    The words are the keywords of the question. If it has no keywords, they are the content words
    of the answer that are not in the question. A page marks these words; they do not affect scores.
    """
    words = question.keywords or answer_keywords(question.question, question.answer or "")
    parts = [re.sub(r"\s+", r"\\s+", re.escape(w.strip()).replace(r"\ ", " ")) for w in words]
    terms = sorted(filter(None, parts), key=len, reverse=True)  # the longest match is marked
    return re.compile(rf"(?<!\w)(?:{'|'.join(terms)})(?!\w)", re.IGNORECASE) if terms else None


def excerpt(pattern: re.Pattern[str] | None, text: str, most: int) -> str:
    """Return a text; if it is long and its first match is late, return it without its beginning."""
    match = pattern.search(text) if pattern and len(text) > most else None
    start = 0 if match is None else min(max(match.start() - most // 2, 0), len(text) - most)
    return f"…{text[start:]}" if start else text


def pieces(pattern: re.Pattern[str] | None, text: str) -> list[str]:
    """Split a text into pieces; the second, the fourth and so on consist of words that leak.

    Adjacent words that leak form one piece. The pieces in their order form the text.
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
