"""The verdict on a model: a word, a number with its confidence, and an example of a leak.

Terminal, page, notebook and Python show the same verdict. The run recorded the statements of the
verdict (its headline) before it drew anything. They are about the first scorer, the first decoding
and the original questions. The statements about a model and its control are valid simultaneously
(`stats.excess_of_mean_and_worst`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from leakbound.bounding.rows import CLAIMS
from leakbound.errors import InputError
from leakbound.planning.before_drawing import unmatched
from leakbound.presenting import sentences
from leakbound.presenting.specification import how_drawn
from leakbound.presenting.table import ends_of, interval
from leakbound.presenting.templates import decision, quantity, say
from leakbound.presenting.view import ArmView, Row, View, read_view
from leakbound.scorers import with_reading
from leakbound.stats.about import Beyond
from leakbound.store import CERTIFICATE, ExploredDraws, Run
from leakbound.store.files import digest_of, read_json
from leakbound.text.shown import Displayed, many, number
from leakbound.types import Prompt, Scorer

Kind = Literal[
    "leaks", "not shown", "below", "uncontrolled", "above", "not above", "unknown"
]  # fmt: skip
_SHOWN = 160  # largest number of quoted characters of a text
_THAN = "more than the control"
_REVERSED = ", which leaks more on average than the model"
_UNCONTROLLED = "(no control: leaks by chance are included)"
_EVERYWHERE = "on average and at the worst question"
_WORST_ALONE = "at the worst question, not shown on average"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakingAnswer:
    """An answer that leaks, with the greedy answer to the same question.

    Attributes:
        question: the original question.
        greedy: the greedy answer; None if there is none, or if answers are withheld.
        leak: the answer that leaks; None if answers are withheld.
        hidden: whether the greedy answer has a lower score than the leaking answer.
        how_often: the number of draws of the question with the leaking answer, in words.
    """

    question: str
    greedy: str | None
    leak: str | None
    hidden: bool
    how_often: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Verdict(Displayed):
    """The verdict of a run on one model.

    Attributes:
        model: the label of the model in the run, and its name.
        kind: the kind of the verdict, which selects the colour and the mark on a page.
        word: the verdict.
        where: whether the model leaks on average or at the worst question.
        limit: the decision on the limit in the study; empty without a limit.
        number: the estimate that decides the verdict; None if a question could not be sampled.
        of: the name of the quantity of `number`.
        proved: the lower bounds without sampling error; empty without a proof.
        seen: the number of draws that leak; empty if they are not counted.
        example: one leaking answer; None if no answer leaks, or if texts were not requested.
        sure: the confidence, and the statements that the confidence covers, in words.
        stressed: the leakage under the worst stress; empty without a stress.
        decodings: the leakage under the decoding that leaks most; empty with a single decoding.
        control_questions: the excess over the control questions; empty without control questions.
        reads: the part of the outputs in which the model leaks, or to which all statements refer;
            empty without thoughts.
        departures: the departures from the benchmark's defaults; empty without departures.
        warning: a contradiction within the run; empty without a contradiction.
        certificate: the result in the run's certificate; empty without a certificate.
        outputs: the number of draws in each class, in words; `ledger` has the numbers.
        ledger: the number of draws in each class, by class.
    """

    model: str
    kind: Kind
    word: str
    where: str
    limit: str = ""
    number: Row = None
    of: str = ""
    proved: str = ""
    seen: str = ""
    example: LeakingAnswer | None = None
    sure: str = ""
    stressed: str = ""
    decodings: str = ""
    control_questions: str = ""
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
        """The verdict, one sentence per line, without the answers."""
        figure = "" if self.number is None else f"{interval(self.number)} {self.of}"
        first = (self.headline, self.limit, figure, self.reads, self.proved, self.seen)
        more = (self.decodings, self.outputs, self.warning, self.sure, self.control_questions)
        last = (self.stressed, self.departures, self.certificate)
        return tuple(filter(None, [*first, *more, *last]))

    @property
    def quoted(self) -> tuple[str, ...]:
        """The question, its greedy answer and a leaking answer, one line each.

        The result is empty without an example.
        """
        if (example := self.example) is None:
            return ()
        often = example.how_often
        if example.leak is None:
            return (f"a sampled answer leaks ({often}); its text is withheld (redacted)",)
        lines = [f"question: {_short(example.question)}"]
        if example.greedy is not None:
            label = "the greedy answer, which leaks less" if example.hidden else "the greedy answer"
            lines.append(f"{label}: {_short(example.greedy)}")
        return (*lines, f"a sampled answer that leaks ({often}): {_short(example.leak)}")

    def to_dict(self) -> dict[str, Any]:
        """Return every field and the headline as JSON, without an empty `reads`."""
        fields = {name: value for name, value in asdict(self).items() if name != "reads" or value}
        if self.number is not None:
            names = ("value", "lower", "upper")
            fields["number"] = dict(zip(names, ends_of(self.number), strict=True))
        return {"headline": self.headline, **fields}

    def _shown(self) -> Iterator[tuple[str]]:
        return zip([f"{self.model}: {self.headline}", *self.lines[1:]])


def show(run: Run, *, texts: bool = False) -> Verdict:
    """Return the verdict on the model of a run, by the first scorer and the first decoding.

    The scorer and the decoding were fixed before anything was drawn. The verdict is about the
    original questions. All statements about the model and its control are valid simultaneously at
    the run's confidence (see `stats.excess_of_mean_and_worst`).

    Args:
        run: a run with estimates, see `leakbound.bound`.
        texts: whether to show a leaking answer; it is withheld if the run is redacted.

    Returns:
        The verdict: a word, the number that decides it, and the confidence. With `texts`, also one
        leaking answer and the greedy answer to the same question.

    Raises:
        InputError: the run has no estimates of its current completions, or it has only greedy
            answers.
        IncompleteError: the run is not finished.
    """
    shown = run_verdicts(run, texts=texts)
    if not shown:
        raise InputError(
            f"`{run.path}` has no sampled answers, so it has no verdict. Evaluate the model "
            "at a temperature above 0."
        )
    return shown[0]


def run_verdicts(run: Run, *, texts: bool = False) -> tuple[Verdict, ...]:
    """Return the verdicts as `show` does, or an empty tuple if a run has no sampled answers."""
    return verdicts(read_view(run, redact=run.redacted, texts=texts))


def verdicts(view: View) -> tuple[Verdict, ...]:
    """Return one verdict per run of a view, about the statements that the run recorded."""
    targets: dict[str, ArmView] = {}
    for model in view.targets if view.scorers else ():
        headline = model.run.record.headline
        if model.run_label not in targets or (headline and headline.arm == str(model.key)):
            targets[model.run_label] = model
    return tuple(_verdict(view, model, _first(view, model.run)) for model in targets.values())


def _first(view: View, run: Run) -> Scorer:
    """Return the view's scorer of a run's headline, with or without `of=`; else its first one."""
    named = run.record.headline.scorer if run.record.headline else ""
    names = ((scorer, (scorer.name, with_reading(scorer, None).name)) for scorer in view.scorers)
    return next((scorer for scorer, own in names if named in own), view.scorers[0])


def certificate(run: Run) -> str:
    """Return the result in a run's certificate in one line, or "" without a certificate."""
    file = run.path / CERTIFICATE
    if not file.exists():
        return ""
    try:
        values = read_json(file, "Write it again with `leakbound certify`.")
    except InputError as error:  # a damaged certificate must not hide the run
        return str(error)
    claim = values.get("claim") if isinstance(values, dict) else None
    if not isinstance(values, dict) or not isinstance(claim, dict):
        return f"{CERTIFICATE} is not a certificate"
    if values.get("digest") != digest_of(values):
        return f"{CERTIFICATE} was changed after it was written"
    return f"{CERTIFICATE}: {values.get('verdict')}, {claim.get('text')}"


def _verdict(view: View, model: ArmView, scorer: Scorer) -> Verdict:
    kind, word, where, row = _word(view, model, scorer)
    limit, below = _limit(model, scorer, len(view.questions))
    several = len(model.run.decodings) > 1
    within = f" at {model.arm.decoding.name}" * several + model.ledger.within
    where = f"{within} {where}" if kind == "uncontrolled" else f"{where}{within if row else ''}"
    of = f"{quantity(scorer)} at the worst question"
    if row is not None and row.about.beyond:
        of = f"excess {quantity(scorer)} over the control, at the worst question"
    seen = "" if kind == "uncontrolled" else _seen(model, scorer)
    return Verdict(
        model=sentences.named(model),
        kind="below" if below and kind in ("not shown", "uncontrolled") else kind,
        word=word,
        where=where.strip(),
        limit=limit,
        number=row,
        of="" if row is None else of,
        seen=_with_greedy(model, scorer, seen),
        proved=sentences.proved(view, model, scorer),
        example=_example(view, model, scorer, row),
        sure=_sure(view, model, scorer, row),
        stressed=sentences.worst_stress(view, model.label, scorer),
        decodings=sentences.worst_decoding(model, scorer),
        control_questions=sentences.over_others(model, scorer),
        reads=sentences.where_it_leaks(model, scorer),
        departures=sentences.departures(view, model),
        warning=sentences.inconsistent(model, scorer)
        or unmatched(model.run.record.notes, scorer.name),
        certificate=certificate(model.run),
        outputs=model.ledger.sentence,
        ledger=model.ledger.to_dict(),
    )


def _word(view: View, model: ArmView, scorer: Scorer) -> tuple[Kind, str, str, Row]:
    """Return the kind, `word` and `where` of a verdict, and the statement on the worst question."""
    beyond: Beyond | None = "control" if model.control else None
    mean = model.leakage(scorer, scope="mean", beyond=beyond)
    worst = model.leakage(scorer, scope="worst question", beyond=beyond)
    if mean is None or worst is None:
        controls = filter(None, [view.control_of(model)])
        sampled = {*model.questions(scorer)}.intersection(*(c.questions(scorer) for c in controls))
        lacking = len(view.questions) - len(sampled)
        return "unknown", "NO VERDICT", f"{many(lacking, 'question')} could not be sampled", None
    if beyond is None:
        return "uncontrolled", _seen(model, scorer).upper() or "NO VERDICT", _UNCONTROLLED, worst
    if worst.lower > 0:
        where = _EVERYWHERE if mean.lower > 0 else _WORST_ALONE
        where = where if len(view.questions) > 1 else _THAN
        if scorer.binary:
            return "leaks", "LEAKS", where, worst
        return "above", "SCORES ABOVE THE CONTROL", where, worst
    if scorer.binary:
        return "not shown", "NOT SHOWN TO LEAK", _THAN + _REVERSED * (mean.upper < 0), worst
    return "not above", "NOT SHOWN TO SCORE ABOVE THE CONTROL", "", worst


def _limit(model: ArmView, scorer: Scorer, questions: int) -> tuple[str, bool]:
    """Return in words the decision on the study's limit, and whether every question is below it.

    Each claim is decided at the run's confidence. "Every question is below" is valid at the same
    confidence, because it is false only if the decision on some question above the limit is wrong.
    """
    claims = list(filter(None, model.per_question(scorer, quantity=CLAIMS)))
    if not claims:
        return "", False
    decided = list(map(decision, claims))
    confirmed, refuted = (decided.count(how) for how in ("holds", "refuted"))
    below = confirmed == questions
    how = {"scorer": scorer, "holds": confirmed, "refuted": refuted, "questions": questions}
    return say("below" if below else "limit", claim=claims[0], **how), below


def _seen(model: ArmView, scorer: Scorer) -> str:
    """Return the number of leaking draws in words; "" for a graded scorer or an explored arm."""
    if not scorer.binary or isinstance(model.arm.spec.draws, ExploredDraws):
        return ""
    rows = model.leakages(scorer)
    leaks = sum(round((row.value or 0.0) * (row.n - row.missing)) for row in rows)
    number, verb = f"{leaks:,}" if leaks else "none", "leak" if leaks > 1 else "leaks"
    missing = sum(row.missing for row in rows) or None
    if missing == sum(row.n for row in rows):
        return say("seen nothing")
    return say("seen", leaks=number, rows=rows, verb=verb, missing=missing)


def _with_greedy(model: ArmView, scorer: Scorer, seen: str) -> str:
    """Return the numbers of leaking draws and greedy answers in words, for a binary scorer."""
    scores = [*model.greedy_scores(scorer).values()]
    if not scorer.binary or not scores:
        return seen
    leak = scores.count(1.0)
    counted = f"{leak:,} of {many(len(scores), 'greedy answer')}"
    one = leak == 1 or (not leak and len(scores) == 1)
    return f"{seen}, and {counted}" if seen else f"{counted} leak{'s' if one else ''}"


def _example(view: View, model: ArmView, scorer: Scorer, row: Row) -> LeakingAnswer | None:
    """Return an answer that leaks at the question with the largest estimate, or None.

    It is the answer with the highest score; among several such answers, the most frequent.
    """
    beyond = row.about.beyond if row is not None else None

    def most_of(question: Prompt) -> float:
        shown = model.leakage(scorer, question.id, beyond=beyond)
        return -math.inf if not shown or shown.value is None else float(shown.value)

    question = max(view.questions, key=most_of)
    leakage, texts = model.leakage(scorer, question.id), model.texts.get(question.id)
    if leakage is None or not leakage.value or texts is None:
        return None
    scoring = [text for text in texts.shown if text.scores[0]]
    if not scoring:
        return None
    most = max(scoring, key=lambda text: (text.scores[0] or 0.0, text.mass, text.count))
    score, often = most.scores[0] or 0.0, sentences.how_often(most)
    if most.share and not most.mass:
        often = f"{most.count:,} of {many(round(most.count / most.share), 'draw')}"
    return LeakingAnswer(
        question=question.question,
        greedy=texts.greedy.text if texts.greedy else None,
        leak=most.text,
        hidden=texts.greedy is not None and (texts.greedy.scores[0] or 0.0) < score,
        how_often=often if scorer.binary else f"{often}, scores {number(score)}",
    )


def _sure(view: View, model: ArmView, scorer: Scorer, row: Row) -> str:
    """Return the confidence, the questions, the draws, the decoding and the scorer in words."""
    both = "the verdict and the interval above, simultaneously"
    together = both if row and row.about.beyond else "the interval above"
    headline = model.run.record.headline
    return say(
        "sure",
        view=view,
        model=model,
        row=row,
        together=f"{together}, given the rounding margin" if model.arm.explored else together,
        benchmark=view.benchmark["name"],
        own=bool(view.reworded or view.attacks),
        drawn=how_drawn(model.arm),
        leaks=scorer.binary and scorer.name,
        scores=not scorer.binary and scorer.name,
        scorers=view.scorers if len(view.scorers) > 1 else None,
        late=headline and not headline.prior,
    )


def _short(text: str) -> str:
    """Return a text in one line, as a quotation."""
    return f"“{sentences.clipped(' '.join(text.split()), _SHOWN)}”"
