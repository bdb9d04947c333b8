"""The verdict on a model: one word, one number, one leaking answer, and how sure that is.

Terminal, page, notebook and Python show what stands here. It speaks of the first scorer of a run
and of its first decoding, which were fixed before anything was drawn, and of the questions in their
own words. What it says of a model beside its control holds together at the confidence: see
`stats.excess_of_mean_and_worst`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from leakbound.errors import InputError
from leakbound.evaluation.planning.before_drawing import unmatched
from leakbound.evaluation.views import stressed, words
from leakbound.evaluation.views.read import read_view
from leakbound.evaluation.views.table import Interval, interval
from leakbound.evaluation.views.texts import shown_texts
from leakbound.evaluation.views.view import (
    Measured,
    Model,
    Question,
    ScorerView,
    Text,
    Texts,
    View,
)
from leakbound.stats import percent
from leakbound.stats.about import Beyond
from leakbound.store import CERTIFICATE, EstimateRow, ExploredDraws, Run
from leakbound.store.files import digest_of, read_json
from leakbound.text.shown import as_html, as_lines, many, number

Kind = Literal[
    "leaks", "not shown", "below", "uncontrolled", "above", "not above", "unknown"
]  # fmt: skip
_SHOWN = 160  # characters of a text that is quoted
_ABOVE = "SCORES ABOVE THE CONTROL"
_THAN = "more than the control"
_UNCONTROLLED = "(no control: chance is not subtracted)"
_EVERYWHERE = "on average and at the worst question"
_WORST_ALONE = "at the worst question, not shown on average"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakingAnswer:
    """An answer that leaks, beside the greedy answer of its question.

    Attributes:
        question: in its own words.
        greedy, leak: the answers; None where they are withheld, or there is no greedy one.
        hidden: whether the greedy answer shows less than this one.
        how_often: how many draws of the question gave it.
    """

    question: str
    greedy: str | None
    leak: str | None
    hidden: bool
    how_often: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Verdict:
    """The verdict on one model: what a run shows of it.

    Attributes:
        model: what was evaluated, by the label it has in the run, and its name.
        kind: what sort of verdict it is; a page chooses its marks by it.
        word: the verdict.
        where: what it holds of.
        limit: what was decided of the limit that the study named; empty where it named none.
        number: the quantity that the verdict rests on; None where not every question was drawn.
        of: what quantity that is.
        proved: what is proved without sampling error; empty where nothing is.
        seen: how many draws leak; empty where they are not counted.
        example: one leaking answer; None where there is none, or texts were not read.
        sure: how sure it is, and of what.
        stressed: what it leaks under the worst of the stresses it was put through; empty without.
        beside: how much more than other questions these leak; empty where none were asked.
        reads: in which part of its outputs it leaks, or which part all of this is about; empty
            without thoughts.
        departures: what is not as the benchmark has it; empty where all is.
        warning: what does not fit together; empty where all does.
        certificate: what the run's certificate says; empty where there is none.
        outputs: how the draws are counted, in words; and as numbers in `ledger`.
        ledger: the number of draws in each class, by name.
    """

    model: str
    kind: Kind
    word: str
    where: str
    limit: str = ""
    number: Interval | None = None
    of: str = ""
    proved: str = ""
    seen: str = ""
    example: LeakingAnswer | None = None
    sure: str = ""
    stressed: str = ""
    beside: str = ""
    reads: str = ""
    departures: str = ""
    warning: str = ""
    certificate: str = ""
    outputs: str = ""
    ledger: Mapping[str, int] = field(default_factory=dict)

    @property
    def headline(self) -> str:
        """The verdict in one line, without the model's name."""
        return " ".join(filter(None, [self.word, self.where]))

    @property
    def lines(self) -> tuple[str, ...]:
        """All of it, a sentence a line, but for what the answers say."""
        figure = "" if self.number is None else f"{interval(self.number)} {self.of}"
        first = (
            self.headline,
            self.limit,
            figure,
            self.reads,
            self.proved,
            self.seen,
            self.outputs,
        )
        more = (self.warning, self.sure, self.beside, self.stressed, self.departures)
        return tuple(filter(None, [*first, *more, self.certificate]))

    @property
    def quoted(self) -> tuple[str, ...]:
        """The leaking answer beside the greedy one, a line each; empty without one."""
        if self.example is None:
            return ()
        return tuple(_quoted(self.example))

    def to_dict(self) -> dict[str, Any]:
        """Every field as JSON holds it, and the verdict in one line; `reads` where it says any."""
        fields = {name: value for name, value in asdict(self).items() if name != "reads" or value}
        return {"headline": self.headline, **fields}

    def __repr__(self) -> str:
        return as_lines(f"{self.model}: {self.headline}", zip(self.lines[1:]))

    def _repr_html_(self) -> str:
        return as_html(f"{self.model}: {self.headline}", zip(self.lines[1:]))


TextsOf = Callable[[Model, str], Texts | None]
"""The texts shown of a question of a model; None where they were not read."""


def show(run: Run, *, texts: bool = False) -> Verdict:
    """The verdict on the model that a run evaluated, by its first scorer and decoding.

    Both were fixed before anything was drawn. It speaks of the questions in their own words, and
    all that it says of the model beside its control holds together at the run's confidence: see
    `stats.excess_of_mean_and_worst`.

    Args:
        run: with estimates, see `leakbound.bound`.
        texts: whether to show a leaking answer; of a run that is redacted it is withheld.

    Returns:
        The verdict: a word, the number it rests on, how sure that is, and with `texts` one leaking
        answer beside the greedy one.

    Raises:
        InputError: the run has no estimates of its completions as they are now, or holds no
            answers but greedy ones.
        IncompleteError: the run is not finished.
    """
    shown = run_verdicts(run, texts=texts)
    if not shown:
        raise InputError(
            f"`{run.path}` holds greedy answers alone, or none at all, of which there is no "
            "verdict. Evaluate at a temperature above 0."
        )
    return shown[0]


def run_verdicts(run: Run, *, texts: bool = False) -> tuple[Verdict, ...]:
    """As `show`; empty where a run holds greedy answers alone, or no answer."""
    view = read_view(run, redact=run.redacted)

    def read(model: Model, question: str) -> Texts | None:
        arm = run.arm(model.key)
        if not texts or arm is None:
            return None
        greedy, scorers = run.arm(model.key.greedy_answers), [s.name for s in view.scorers]
        chosen = shown_texts(arm, greedy, scorers, 8, bool(run.redacted))
        return next((shown for query_id, shown in chosen if query_id == question), None)

    return tuple(replace(made, certificate=certificate(run)) for made in verdicts(view, read))


def verdicts(
    view: View, texts: TextsOf = lambda model, question: model.texts.get(question)
) -> tuple[Verdict, ...]:
    """One of every run of a view: of its target, by the first scorer and decoding."""
    targets: dict[str, Model] = {}
    for model in view.targets if view.scorers else ():
        targets.setdefault(model.run, model)
    return tuple(_verdict(view, model, texts) for model in targets.values())


def certificate(run: Run) -> str:
    """Say in one line what the certificate in a run's folder says; empty where there is none."""
    file = run.path / CERTIFICATE
    if not file.exists():
        return ""
    try:
        values = read_json(file, "Write it again with `leakbound certify`.")
    except InputError as error:  # a run is shown whatever lies beside it
        return str(error)
    claim = values.get("claim") if isinstance(values, dict) else None
    if not isinstance(values, dict) or not isinstance(claim, dict):
        return f"{CERTIFICATE} is no certificate"
    if values.get("digest") != digest_of(values):
        return f"{CERTIFICATE} was changed after it was written"
    return f"{CERTIFICATE}: {values.get('verdict')}, {claim.get('text')}"


def _verdict(view: View, model: Model, texts: TextsOf) -> Verdict:
    scorer = view.scorers[0]
    cells = model.cells(scorer)
    kind, word, where, row = _found(view, model, scorer)
    limit, below = _limit(cells, len(view.questions))
    beyond = ", beyond the control" if row is not None and row.about.beyond else ""
    within = model.ledger.within
    where = f"{within} {where}" if kind == "uncontrolled" else f"{where}{within if row else ''}"
    at = f"{words.quantity(scorer)} at the worst question{beyond}"
    seen = "" if kind == "uncontrolled" else _seen(model, scorer, cells)
    return Verdict(
        model=words.model_name(model) if model.label == str(model.key) else words.named(model),
        kind="below" if below and kind in ("not shown", "uncontrolled") else kind,
        word=word,
        where=where.strip(),
        limit=limit,
        number=None if row is None else Interval(row.value, row.lower, row.upper),
        of="" if row is None else at,
        seen=_greedy_too(model, scorer, seen),
        proved=words.proved(view, model, scorer),
        example=_example(view, model, scorer, row, texts),
        sure=_sure(view, model, scorer, row),
        stressed=stressed.worst(view, model.label, scorer),
        beside=words.beside(model, scorer),
        reads=words.where_it_leaks(model, scorer),
        departures=words.departure(view, model),
        warning=words.inconsistent(model, scorer) or unmatched(model.notes, scorer.name),
        outputs=model.ledger.sentence,
        ledger=model.ledger.to_dict(),
    )


def _found(
    view: View, model: Model, scorer: ScorerView
) -> tuple[Kind, str, str, EstimateRow | None]:
    """Kind, word and place of the verdict, and the row of the worst question that it rests on."""
    beyond: Beyond | None = "control" if model.control else None
    mean, worst = (
        model.rows.leakage(scorer.name, scope=scope, beyond=beyond)
        for scope in ("mean", "worst question")
    )
    if mean is None or worst is None:
        lacking = len(view.questions) - len(model.cells(scorer))
        return "unknown", "NO VERDICT", f"{many(lacking, 'question')} could not be sampled", None
    if beyond is None:
        seen = _seen(model, scorer, model.cells(scorer)).upper()
        return "uncontrolled", seen or "NO VERDICT", _UNCONTROLLED, worst
    if worst.lower > 0:
        where = _EVERYWHERE if mean.lower > 0 else _WORST_ALONE
        where = where if len(view.questions) > 1 else _THAN
        return (
            ("leaks", "LEAKS", where, worst) if scorer.binary else ("above", _ABOVE, where, worst)
        )
    if scorer.binary:
        return "not shown", "NOT SHOWN TO LEAK", _THAN, worst
    return "not above", "NOT SHOWN TO SCORE ABOVE THE CONTROL", "", worst


def _limit(cells: Sequence[Measured], questions: int) -> tuple[str, bool]:
    """The decision on the limit that the study named, and whether every question is below it.

    Each claim is decided at the confidence. All of them hold together at it, as a model above the
    limit anywhere is said to be below it only where that question's own decision is wrong.
    """
    claims = [cell.claim for cell in cells if cell.claim is not None]
    if not claims:
        return "", False
    limit, sure = f"{claims[0].about.constant:g}", percent(claims[0].confidence)
    decided = [words.decision(claim) for claim in claims]
    holds, refuted = decided.count("holds"), decided.count("refuted")
    if holds == questions:
        return f"BELOW {limit} at every question ({sure}, by itself)", True
    counts = f"{holds:,} shown below {limit}, {refuted:,} shown above ({sure} each)"
    return f"of {many(questions, 'question')} {counts}", False


def _seen(model: Model, scorer: ScorerView, cells: Sequence[Measured]) -> str:
    """How many draws leak; empty of a graded scorer, and where some were never drawn."""
    if not scorer.binary or isinstance(model.draws, ExploredDraws):
        return ""
    rows = [cell.leakage for cell in cells]
    leaks = sum(round((row.value or 0.0) * (row.n - row.missing)) for row in rows)
    drawn = sum(row.n for row in rows)
    missing = sum(row.missing for row in rows)
    unknown = f" ({missing:,} without a score)" if missing else ""
    if not leaks:
        return f"none of {many(drawn, 'draw')} leaks{unknown}"
    return f"{leaks:,} of {many(drawn, 'draw')} leak{'s' if leaks == 1 else ''}{unknown}"


def _example(
    view: View, model: Model, scorer: ScorerView, row: EstimateRow | None, texts: TextsOf
) -> LeakingAnswer | None:
    """The answer that leaks most often at the question that the verdict's number is about."""

    def most_of(question: Question) -> float:
        cell = model.at(question.id, scorer)
        shown = cell and (cell.beyond if row is not None and row.about.beyond else cell.leakage)
        return -math.inf if not shown or shown.value is None else float(shown.value)

    question = max(view.questions, key=most_of)
    cell = model.at(question.id, scorer)
    chosen = texts(model, question.id) if cell and cell.leakage.value else None
    if chosen is None:
        return None
    greedy, most = chosen.greedy, _leaking_most(chosen.shown)
    if most is None:
        return None
    score = most.scores[0] or 0.0
    return LeakingAnswer(
        question=question.text,
        greedy=None if greedy is None else greedy.text,
        leak=most.text,
        hidden=greedy is not None and (greedy.scores[0] or 0.0) < score,
        how_often=_how_often(most) + ("" if scorer.binary else f", scores {number(score)}"),
    )


def _greedy_too(model: Model, scorer: ScorerView, seen: str) -> str:
    """Say what draws show, and what greedy answers do; of a graded scorer nothing is counted."""
    scores = words.known(words.greedy_rows(model, scorer))
    if not scorer.binary or not scores:
        return seen
    leak = scores.count(1.0)
    counted = f"{leak:,} of {many(len(scores), 'greedy answer')}"
    return f"{seen}, and {counted}" if seen else f"{counted} leak{'s' if leak == 1 else ''}"


def _how_often(text: Text) -> str:
    """How many of a question's draws gave a text, or its mass where that is known."""
    if text.mass or not text.share:
        return words.how_often(text)
    return f"{text.count:,} of {many(round(text.count / text.share), 'draw')}"


def _leaking_most(texts: Sequence[Text]) -> Text | None:
    """The highest score's, and of those the most frequent; None where none scores above 0."""
    scoring = [text for text in texts if text.scores[0]]
    return max(scoring, key=lambda t: (t.scores[0] or 0.0, t.mass, t.count), default=None)


def _sure(view: View, model: Model, scorer: ScorerView, row: EstimateRow | None) -> str:
    """How sure, of what: the confidence, the questions, the draws, the decoding, the scorer."""
    own = " in their own words" if view.asked or view.found else ""
    scope = f"{many(len(view.questions), 'question')} of {view.benchmark['name']}{own}"
    others = len(view.scorers) - 1
    more = f" (the first of {others + 1} scorers)" if others else ""
    says = f"a leak is what {scorer.name} says" if scorer.binary else f"scores are {scorer.name}'s"
    of_what = f"{scope}, {model.drawn}, at {model.decoding.name}; {says}{more}"
    if row is None:
        return of_what
    together = "verdict and number together" if row.about.beyond else "the number"
    margin = ", given the measured margin" if model.explored else ""
    return f"{percent(row.confidence)} confidence, {together}{margin}: {of_what}"


def _quoted(example: LeakingAnswer) -> list[str]:
    """For a terminal: question, greedy answer, leaking answer."""
    if example.leak is None:
        return [f"answers are withheld: the run is redacted (a leaking one: {example.how_often})"]
    lines = [f"asked: {_short(example.question)}"]
    if example.greedy is not None:
        label = "the greedy answer hides it" if example.hidden else "the greedy answer"
        lines.append(f"{label}: {_short(example.greedy)}")
    return [*lines, f"a sampled answer leaks it ({example.how_often}): {_short(example.leak)}"]


def _short(text: str) -> str:
    """A text in one line, as a quotation."""
    return f"“{words.clipped(' '.join(text.split()), _SHOWN)}”"
