"""Data that open under a question: charts as rows, texts with the words that leak marked.

A page of hundreds of questions holds all of it, so it is packed: JSON, compressed, in letters and
digits that nothing in a page can mistake for markup. `page.js` unpacks and draws it.
"""

from __future__ import annotations

import base64
import json
import math
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial

from leakbound.evaluation.views import words
from leakbound.evaluation.views.draws import FAR, known_of
from leakbound.evaluation.views.table import nearest
from leakbound.evaluation.views.texts import excerpt, leaking_words, pieces
from leakbound.evaluation.views.view import (
    BINS,
    Measured,
    Question,
    RewrittenModel,
    ScorerView,
    Text,
    Texts,
    View,
)
from leakbound.reporting.charts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, style_of
from leakbound.reporting.figures import ENDS, Data, Figure
from leakbound.stats import percent
from leakbound.store import EstimateRow
from leakbound.text.shown import number, rounded, tied, visible
from leakbound.types import Json, JsonObject

_DIGITS = 4  # of a chart's data


@dataclass(frozen=True, slots=True)
class Kind:
    """The features that all charts of one kind share.

    Attributes:
        title: what stands above it.
        columns: of its rows, the first along the horizontal axis.
        x, y: what the axes say; y None: what the scorer measures.
        log: whether that axis is logarithmic.
        note: what is to be said under it, for whoever cannot see it too.
    """

    title: str
    columns: tuple[str, ...]
    x: str
    y: str | None
    note: str
    log: bool = False


KINDS: Mapping[str, Kind] = {
    "scores": Kind(
        "Scores of the draws", ("from", "to", "share of draws"), "score", "share of draws",
        "Bars: the draws by their score. Dashed: the greedy answer.",
    ),
    "tail": Kind(
        "Tail, Pr[X > x]", ("x", *ENDS), "x", "Pr[X > x]",
        "Line: the estimate. Band: the bounds, for all x at once. Grey: the control.",
    ),
    "repeated": Kind(
        "Repeated draws, leak@k", ("k", *ENDS, "proved", "worst of k"), "k draws", "leak@k",
        "What someone finds who asks k times, the worst of k answers. Line: the estimate. Shaded: "
        "between the bounds for all k at once, where it is not known. Dashed: no less than this, "
        "proved, whatever the draws. Circles: the naive mean of the worst of k. Grey: the control.",
        log=True,
    ),
    "course": Kind(
        "Convergence with n", ("n", *ENDS), "n draws", None,
        "The first n draws, in an order made at random: the line is the estimate, the band its "
        "bounds, each by itself; the bar at the end is what is stated.",
        log=True,
    ),
    "sureness": Kind(
        "Do surer answers leak more?", ("sureness", "upper", "query", "text"),
        "cumulative log-probability", "upper bound",
        "A dot a query; the dark one is the question in its own words.",
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of one question.

    Attributes:
        kind: the key of its `Kind` in `KINDS`.
        rows: under the columns of its kind.
        scorer: its place among those of the page.
        mark: what is marked: the score of the greedy answer, or the dot of the question's own
            words.
        caption: what else stands above it.
    """

    kind: str
    scorer: int
    rows: list[list[str | float | None]]
    mark: float | None = None
    caption: str = ""

    @property
    def plain(self) -> JsonObject:
        """As JSON has it."""
        return {name: getattr(self, name) for name in self.__slots__}


def packed(view: View, figures: Iterable[Figure]) -> str:
    """All that opens on the page of a view, and the data of its charts: see `unpacked`."""
    shown = {
        "frame": {
            "width": WIDTH, "height": HEIGHT, "left": LEFT, "right": RIGHT, "top": TOP,
            "bottom": BOTTOM,
        },
        "kinds": {name: asdict(kind) for name, kind in KINDS.items()},
        "confidence": percent(view.confidence),
        "scorers": [
            {"name": visible(scorer.name), "quantity": words.quantity(scorer)}
            for scorer in view.scorers
        ],
        "models": [_model(view, i) for i in range(len(view.models))],
        "questions": [_question(view, question) for question in view.questions],
        "figures": [_data(figure.data) for figure in figures],
        "redacted": view.redacted,
    }  # fmt: skip
    text = json.dumps(shown, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode())).decode()


def unpacked(page: str) -> JsonObject:
    """Unpack from the HTML of a page what its script unpacks; empty where it holds nothing."""
    match = re.search(r'<script type="text/plain" id="details">([^<]*)</script>', page)
    held: JsonObject = json.loads(zlib.decompress(base64.b64decode(match[1]))) if match else {}
    return held


def _model(view: View, i: int) -> JsonObject:
    model, labels = view.models[i], [model.label for model in view.models]
    return {
        "label": _shown(model.subject),
        "style": style_of(i),
        "control": labels.index(model.control) if model.control else None,
        "explored": bool(model.explored),
    }


def _question(view: View, question: Question) -> JsonObject:
    answer = "none given" if question.answer is None else _shown(question.answer, words.MOST_ASKED)
    return {
        "id": _shown(question.id),
        "text": _shown(question.text, words.MOST_ASKED),
        "answer": None if view.redacted else answer,
        "keywords": [_shown(keyword) for keyword in question.keywords],
        "models": [_of_model(view, i, question) for i in range(len(view.models))],
    }


def _of_model(view: View, i: int, question: Question) -> JsonObject | None:
    """Gather what one model says to a question; None where it was not asked."""
    model = view.models[i]
    if question.id in model.failures:
        reason = _shown(model.failures[question.id], words.MOST_ASKED)
        return {"failed": f"Not sampled: {reason}."}
    if question.id not in model.texts:
        return None
    charts: list[Chart] = []
    sentences, rewritten = [], [m for m in view.asked if m.model == i]
    for place, scorer in enumerate(view.scorers):
        if cell := model.at(question.id, scorer):
            sentences.append(tied(words.measured(cell, scorer)))
            charts += _charts(cell, scorer, place)
        charts += [_sureness(m, scorer, question.id, place) for m in rewritten]
    if question.id in model.explored:
        sentences.append(tied(words.explored(model.explored[question.id])))
    texts = model.texts[question.id]
    return {
        "said": [visible(sentence) for sentence in sentences],
        "charts": [chart.plain for chart in charts if chart.rows],
        "texts": list(_texts(texts, leaking_words(question))),
        "left": tied(words.left_out(texts)),
    }


def _charts(cell: Measured, scorer: ScorerView, place: int) -> Iterator[Chart]:
    """Charts of a question under one scorer, from its draws to what repeating them finds."""
    drawn = sum(cell.histogram)
    if drawn and not scorer.binary:
        bars: list[list[str | float | None]] = [
            [i / BINS, (i + 1) / BINS, _near(count / drawn)]
            for i, count in enumerate(cell.histogram)
            if count
        ]
        yield Chart("scores", place, bars, cell.greedy)
    tail = cell.by_parameter("tail")
    yield Chart("tail", place, [[x, *_ends(row)] for x, row in sorted(tail.items())])
    repeated, naive = cell.by_parameter("leak@k"), cell.by_parameter("worst of k")
    proved = {row.parameter: row.lower for row in cell.rows.where(quantity="leak@k", proved=True)}
    rows: list[list[str | float | None]] = [
        [k, *_ends(row), _low(proved.get(k)), _near(naive[k].value if k in naive else None)]
        for k, row in sorted(repeated.items())
    ]
    beyond = [k for k in FAR[::-5] if rows and k > max(repeated)][::-1]  # two a decade
    rows += [
        [at.k, None, _low(at.lower), _high(at.upper), _low(at.proved if proved else None), None]
        for at in known_of(cell, scorer, beyond)
    ]
    yield Chart("repeated", place, rows)
    yield Chart("course", place, list(_course(cell)), cell.greedy)


def _course(cell: Measured) -> Iterator[list[str | float | None]]:
    """Step by step; the last has the ends that are stated."""
    for step in cell.course[:-1]:
        yield [step.n, _near(step.value), _low(step.lower), _high(step.upper)]
    if cell.course:
        yield [cell.course[-1].n, *_ends(cell.leakage)]


def _sureness(model: RewrittenModel, scorer: ScorerView, question: str, place: int) -> Chart:
    """How sure the model is of its answers to each query, and what they leak at most."""
    rewritten = model.questions.get((scorer.name, question))
    if rewritten is None or rewritten.correlation is None:
        return Chart("sureness", place, [])
    queries = [query for query in rewritten.queries if query.sureness is not None]
    own = [i for i, query in enumerate(queries) if query.source == "original"]
    rows: list[list[str | float | None]] = [
        [
            _near(query.sureness),
            _high(query.leakage.upper),
            _shown(query.id),
            "withheld" if query.text is None else _shown(query.text),
        ]
        for query in queries
    ]
    caption = f"r = {number(rewritten.correlation)}"
    return Chart("sureness", place, rows, own[0] if own else None, caption)


def _texts(texts: Texts, leaking: re.Pattern[str] | None) -> Iterator[list[Json]]:
    """The greedy answer, then the completions that are shown, a row each."""
    if texts.greedy:
        yield _text(texts.greedy, "greedy", leaking)
    for text in texts.shown:
        yield _text(text, tied(words.how_often(text)), leaking)


def _text(text: Text, kind: str, leaking: re.Pattern[str] | None) -> list[Json]:
    """A completion in pieces, how often it came, its figures, and whether it leaks.

    A completion with a visible thought has the pieces of the thought, then those of the answer.
    """
    shown: Json = None if text.text is None else pieces(leaking, _shown(text.text))
    if text.parts is not None:
        thought = excerpt(leaking, text.parts[0], words.MOST_CHARACTERS)
        shown = [pieces(leaking, _shown(part)) for part in (thought, text.parts[1])]
    scores = [number(s) if s is not None else "undecided" for s in text.scores]
    return [shown, kind, *scores, number(text.logprob), text.leaks]


def _data(data: Data) -> JsonObject:
    def plain(value: str | float | None) -> Json:
        if isinstance(value, str):
            return _shown(value)
        return value if value is None or math.isfinite(value) else None

    return {"columns": list(data.columns), "rows": [list(map(plain, row)) for row in data.rows]}


def _shown(text: str, most: int = words.MOST_CHARACTERS) -> str:
    return visible(words.clipped(text, most))


def _ends(bound: EstimateRow) -> list[str | float | None]:
    return [_near(nearest(bound)), _low(bound.lower), _high(bound.upper)]


def _near(value: float | None, towards: int = 0) -> float | None:
    """A figure for a chart, rounded as those that are read, with two digits more."""
    return None if value is None else float(rounded(value, towards, _DIGITS))


_low, _high = partial(_near, towards=-1), partial(_near, towards=1)
