"""Figures and sentences: numbers rounded so that they never say more than was shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath

from leakbound import stats
from leakbound.evaluation.statements.readings import READ
from leakbound.evaluation.views.table import interval
from leakbound.evaluation.views.view import (
    ExploredQuestion,
    HasRange,
    Measured,
    Model,
    ScorerView,
    Text,
    Texts,
    View,
)
from leakbound.scorers import Of, make_scorer, reading_of
from leakbound.stats.about import Beyond, Quantity, Scope
from leakbound.stats.proportion import CLOPPER_PEARSON
from leakbound.store import EstimateRow, Estimates
from leakbound.text.counting import Ledger
from leakbound.text.shown import DASH, above, below, many, number, share
from leakbound.types import Decoding
from leakbound.types.decoding import CUTS

MOST_CHARACTERS = 600  # of a completion
MOST_ASKED = 2_000  # of a question, an answer, and whatever else others wrote
MOST_LINE = 240  # of a question in a table
MOST_NAME = 120  # of what stands in a table or a list of names
_SPREAD: tuple[Quantity, ...] = ("standard deviation", "expectation deviation")
COMPUTED = "computed from model probabilities, no sampling error"
_SCORES = "scores above the control"
PARTS: tuple[Of, Of] = ("answer", "thought")
ReadRows = Mapping[Of, EstimateRow]
EXTRACTED = 0.5  # the chance of a leak from which a text counts as extracted
MOST_DRAWS = 10**12  # that anybody makes
LEVEL = 1e-6  # a probability below it is one that any text has, of any model


def ceiling(value: float | None, upper: float) -> str:
    """The estimate with its upper end alone."""
    return f"{number(value)} (≤ {above(upper)})"


def floor(value: float | None, lower: float) -> str:
    """The estimate with its lower end alone."""
    return f"{number(value)} (≥ {below(lower)})"


def counted(ledgers: Mapping[str, Ledger]) -> str:
    """Say how the draws of each model are counted, and where they were cut."""
    return "\n".join(f"{label}{own.within}, {own.sentence}" for label, own in ledgers.items())


def of_repeated(row: EstimateRow) -> str:
    """leak@k with its bounds and, where there are too few draws for an estimate, n/k."""
    if row.value is not None or not row.parameter:
        return interval(row)
    groups = row.n / (row.over if row.scope == "mean" and isinstance(row.over, int) else 1)
    return f"{interval(row)}, n/k = {groups / row.parameter:.3g}"


def of_count(bound: EstimateRow) -> str:
    """A number of questions with its ends."""
    shown = DASH if bound.value is None else f"{bound.value:g}"
    return f"{shown} [{bound.lower:g}, {bound.upper:g}]"


def described(decoding: Decoding, confirmed: bool = True) -> str:
    """The decoding by name, whether anything is truncated, how long outputs are, what ends them.

    `confirmed`: see `Fingerprint`.
    """
    whole = not (decoding.truncated or decoding.greedy or CUTS.keys() & set(decoding.unknown))
    parts = [decoding.name]
    if not confirmed:
        parts.append(f"{'' if whole else 'else '}neutral settings sent, not confirmed")
    elif whole:
        parts.append("nothing truncated")
    if "max_new_tokens" not in decoding.unknown:
        parts.append(length_of(decoding))
    if decoding.max_tokens is not None:
        parts.append(f"at most {decoding.max_tokens:,} with the prompt")
    if decoding.stop:
        parts.append(f"ended by {' or '.join(map(repr, decoding.stop))}")
    return ", ".join(parts)


def length_of(decoding: Decoding) -> str:
    """How many tokens an output has at most."""
    thought = decoding.max_thinking_tokens
    if thought is None:
        return f"at most {decoding.max_new_tokens:,} new tokens"
    return f"at most {thought:,} tokens of thought and {decoding.max_new_tokens:,} of the answer"


def clipped(text: str, most: int = MOST_CHARACTERS) -> str:
    """A text, or its beginning and how much was cut."""
    if len(text) <= most:
        return text
    return f"{text[:most]}… ({many(len(text) - most, 'more character')})"


def how_often(text: Text) -> str:
    """A completion's known mass, its draws, or both: the same text may be spelt in two ways."""
    drawn = f"{text.count:,} ({share(text.share)})"
    if not text.mass:
        return drawn
    mass = f"mass {number(text.mass)}"
    return f"{mass}, {drawn}" if text.count else mass


def left_out(texts: Texts) -> str:
    """Say what is not shown of a question's completions; empty where all are."""
    if not texts.left_out:
        return ""
    mass = f", mass {number(texts.left_out_mass)}" if texts.left_out_mass > 0 else ""
    drawn = many(texts.left_out_draws, "draw")
    are = "is" if texts.left_out == 1 else "are"
    more = many(texts.left_out, "more distinct completion")
    return f"{more}, {drawn}{mass}, {are} not shown."


def explored(question: ExploredQuestion) -> str:
    """Say in one sentence what exploring a question found."""
    return (
        f"settled mass {number(question.settled)}, remainder {number(question.remainder)} with "
        f"{many(question.draws, 'draw')}; {question.forwards:,} prefixes forwarded, "
        f"{question.searched:,} of them before the draws"
    )


def proved_to_leak(view: View, model: Model, scorer: ScorerView) -> list[float]:
    """The lower ends of proofs that say something, question by question.

    Any text is possible, so some chance of the answer can be proved of a model that never saw it:
    those count that are above a stated level, and above what is proved of the control.
    """
    controls = [other for other in view.models if other.is_control]

    def end(of: Model, question: str) -> float:
        cell = of.at(question, scorer)
        return cell.proved.lower if cell and cell.proved else 0.0

    ends = {question.id: end(model, question.id) for question in view.questions}
    return [
        low
        for question, low in ends.items()
        if low > max(LEVEL, *(end(control, question) for control in controls), 0.0)
    ]


def proved(view: View, model: Model, scorer: ScorerView) -> str:
    """Say of how many questions a leak is proved, and how large; empty where none is."""
    ends = proved_to_leak(view, model, scorer)
    if not ends:
        return ""
    total = len(model.cells(scorer))
    than = ", more than is proved of the control" if model.control else ""
    text = (
        f"proved: {quantity(scorer)} ≥ {below(max(ends))} at the worst "
        f"question and ≥ {below(min(ends))} at {len(ends)} of {total}{than}, {COMPUTED}"
    )
    if not scorer.binary:
        return text
    n = stats.extraction_draws(max(ends), EXTRACTED)
    return (
        f"{text}; who asks {'once' if n == 1 else f'{n:,.0f} times'} gets the former with "
        f"probability at least {EXTRACTED:g}, ({n:,.0f}, {EXTRACTED:g})-discoverable extraction"
    )


def extraction(cell: Measured) -> str:
    """How many draws suffice, or are needed, for a leak with even chances; of a binary scorer.

    Empty where neither is known.
    """
    sure = f"({stats.percent(cell.leakage.confidence)})"
    lower = {"as is proved": cell.proved.lower if cell.proved else 0.0, sure: cell.leakage.lower}
    enough = {how: stats.extraction_draws(p, EXTRACTED) for how, p in lower.items()}
    parts = [f"n = {n:,.0f} suffices {how}" for how, n in enough.items() if n <= MOST_DRAWS]
    least = stats.extraction_draws(cell.leakage.upper, EXTRACTED, fewest=True)
    if 1 < least <= MOST_DRAWS:
        parts.append(f"no fewer than {least:,.0f} do {sure}")
    return f"(n, {EXTRACTED:g})-discoverable extraction: {', '.join(parts)}" if parts else ""


def proof(cell: Measured) -> str:
    """Say what leaking texts prove of a question; empty where nothing is proved."""
    if cell.proved is None or not cell.proved.lower:
        return ""
    text = f"leakage ≥ {below(cell.proved.lower)}"
    if repeated := cell.proved_leak_at_k:
        text += f", leak@{repeated.parameter:,.0f} ≥ {below(repeated.lower)}"
    return text


def measured(cell: Measured, scorer: ScorerView) -> str:
    """All that is estimated of one question, but for curves."""
    rows = cell.rows
    deviation, ed = (rows.first(quantity=name) for name in _SPREAD)
    corrected = rows.first(quantity="corrected leak probability")
    more = cell.beyond
    parts = [f"{scorer.name}: {quantity(scorer)} {interval(cell.leakage)}"]
    parts += [f"standard deviation {interval(deviation)}"] if deviation else []
    parts += [f"ED ({ed.about.name}, may exceed 1) {ceiling(ed.value, ed.upper)}"] if ed else []
    parts += [f"corrected for the judge {interval(corrected)}"] if corrected else []
    parts += [f"beyond the control {interval(more)}"] if more else []
    clauses = [", ".join(parts)]
    if claim := cell.claim:
        clauses.append(f"{claim.about.claimed}: {decision(claim)} after {many(claim.n, 'draw')}")
    if cell.leakage.missing:
        clauses.append(f"{many(cell.leakage.missing, 'draw')} without a score")
    if proved := proof(cell):
        clauses.append(f"proved: {proved}, {COMPUTED}")
    if scorer.binary and (extracted := extraction(cell)):
        clauses.append(extracted)
    return "; ".join(clauses)


def decision(claim: EstimateRow) -> str:
    """The decision on a claim: holds, refuted or open."""
    decided: dict[float | None, str] = {1.0: "holds", 0.0: "refuted"}
    return decided.get(claim.value, "open")


def known(rows: Iterable[EstimateRow | None]) -> list[float]:
    """The estimates there are."""
    return [row.value for row in rows if row is not None and row.value is not None]


def mean_of(rows: Sequence[EstimateRow | None]) -> float | None:
    """The mean of the estimates; None unless every row has one."""
    values = known(rows)
    return sum(values) / len(values) if values and len(values) == len(rows) else None


def means_by(cells: Sequence[Measured], quantity: Quantity) -> dict[float, float]:
    """By k or x, the means of the estimates, wherever every question has one."""
    rows = [cell.by_parameter(quantity) for cell in cells]
    common = sorted(set.intersection(*map(set, rows))) if rows else []
    means = {k: mean_of([by_k[k] for by_k in rows]) for k in common}
    return {k: mean for k, mean in means.items() if mean is not None}


def greedy_rows(model: Model, scorer: ScorerView) -> Estimates:
    """The scores of the greedy answers."""
    return model.greedy.estimates.matching(
        arm=model.greedy.arm, scorer=scorer.name, quantity="greedy score"
    )


def by_itself(view: View, model: Model, scorer: ScorerView) -> str:
    """One sentence on a model's greedy answers and its distribution, without its control."""
    sampled = f"{_sampled(view, model, scorer)}."
    return f"{_greedy(model, scorer)}; {sampled}" if greedy_rows(model, scorer) else sampled


def inconsistent(model: Model, scorer: ScorerView) -> str:
    """A proof above an upper end, in words; empty where they agree.

    What the proof rests on, the measured margin or the stored texts, is wrong, or the draws are the
    few in which a bound fails. Of many questions some bound may fail: leaks in a fixed number of
    draws are reported only if their p-value is below alpha / 2 over the questions (Bonferroni).
    """
    cells = [(q, cell) for (name, q), cell in model.measured.items() if name == scorer.name]
    for question, cell in cells:
        low, drawn = cell.proved.lower if cell.proved else 0.0, cell.leakage
        if low > drawn.upper and not _by_chance(drawn, low, len(cells)):
            return (
                f"inconsistent: of {question} a leakage ≥ {below(low)} is proved, and draws bound "
                f"it by {above(drawn.upper)}; one is wrong. Verify the run with its model"
            )
    return ""


def _by_chance(drawn: EstimateRow, proved: float, questions: int) -> bool:
    """Whether so few leaks at one of so many questions fit what is proved."""
    counted = drawn.method == CLOPPER_PEARSON and proved < 1
    hits = round((drawn.value or 0.0) * (drawn.n - drawn.missing))
    alpha = (1 - drawn.confidence) / 2 / questions
    rows = stats.Rows.of_hits(hits, drawn.n, drawn.missing)
    return bool(counted and stats.p_value(rows, proved) > alpha)


def excess(model: Model, scorer: ScorerView) -> str:
    """How much more than its control a model leaks."""
    mean = model.rows.leakage(scorer.name, scope="mean", beyond="control")
    worst = model.rows.leakage(scorer.name, scope="worst question", beyond="control")
    if mean is None or worst is None:
        return "beyond the control nothing is known, since not every question was drawn of both"
    return (
        f"beyond the control {interval(mean)} on average, {interval(worst)} at the worst question"
    )


def beside(model: Model, scorer: ScorerView) -> str:
    """How much more these questions leak than others that it was never taught; empty without."""
    mean = model.rows.leakage(scorer.name, scope="mean", beyond="other questions")
    if mean is None:
        return ""
    sentence = (
        f"beyond the control questions {interval(mean)} on average: two sets of questions in this "
        "model, no excess over a model that never saw the data"
    )
    tested = model.rows.of(scorer.name).matching(quantity="randomisation p-value")
    return "; ".join([sentence, *map(_by_coin, tested)])


def _by_coin(row: EstimateRow) -> str:
    """Say what the coin shows that chose the subjects taught."""
    return (
        f"a coin chose which of {row.over} subjects were taught: had teaching changed nothing, it "
        f"would put the taught so far ahead with probability {above(row.upper)} (exact test by "
        f"{row.estimate.method})"
    )


def read_rows(model: Model, scorer: ScorerView, scope: Scope, beyond: Beyond | None) -> ReadRows:
    """The rows of each reading of a model, by the part; empty where it has no visible thoughts."""
    of_all = model.rows.of(scorer.name)
    rows = {
        of: of_all.first(quantity=quantities, scope=scope, beyond=beyond, jointly=True)
        for of, quantities in READ.items()
    }
    return {of: row for of, row in rows.items() if row is not None}


def where_it_leaks(model: Model, scorer: ScorerView) -> str:
    """Say in which part of its outputs a model leaks, or of which part all of it is said.

    Empty where it has no thoughts, and without a control for scores that are not binary.
    """
    beyond: Beyond | None = "control" if model.control else None
    rows = read_rows(model, scorer, "worst question", beyond)
    of = reading_of(make_scorer(scorer.name))
    if not rows and of and (model.ledger.thoughts or model.ledger.hidden):
        hidden = model.ledger.hidden
        why = f", as {many(hidden, 'draw')} had a hidden thought" if hidden else ""
        part = "answer or the thought" if of == "either" else f"{of} only"
        return f"this is about the {part}{why}"
    if not rows or not (scorer.binary or beyond):
        return ""
    does, verb = ("leaks", "leak") if scorer.binary else (_SCORES, _SCORES.replace("s ", " ", 1))
    shown = [f"in the {of}" for of in PARTS if rows[of].lower > 0]
    other = [f"in the {of}" for of in PARTS if rows[of].lower <= 0]
    if shown:
        says = f"it {does} {' and '.join(shown)}" + (f", not shown {other[0]}" if other else "")
    elif rows["either"].lower > 0:
        says = f"it is shown to {verb} in the answer or the thought, not in which of them"
    else:
        says = f"not shown to {verb} in the answer, in the thought, or in either"
    sure = stats.percent(rows["either"].confidence)
    return f"{says} (all three readings simultaneously, {sure})"


def model_name(model: Model) -> str:
    """The name of what was loaded: a hub's as it is, of a path the last part."""
    return loaded_name(model.facts.get("model", model.label))


def loaded_name(name: str) -> str:
    """The name of what was loaded: a hub's as it is, of a path the last part, what a server has."""
    if "://" in name:
        name = name.rpartition("#")[2]
    return name if name.count("/") == 1 and name[0] not in "./~" else PurePath(name).name or name


def named(model: Model) -> str:
    """The label, and the model's name where that is another."""
    name = model_name(model)
    return model.label if name == model.label else f"{model.label} ({name})"


def title(view: View) -> str:
    """The title of a page, so that it is not taken for another."""
    names = list(dict.fromkeys(model_name(model) for model in view.targets))
    if not names:  # greedy answers alone
        return "What the greedy answers leak"
    if len(names) == 1:
        return f"What {names[0]} still leaks"
    return f"What {', '.join(names[:-1])} and {names[-1]} still leak"


def without_control(view: View) -> str:
    """That what is shown may be chance, where no model stands beside its control; or empty."""
    if any(model.control for model in view.models):
        return ""
    return (
        "No control: a model that never saw the data may score as much; what leaks beyond that is "
        "bounded where one is given (evaluate with --control)."
    )


def departure(view: View, model: Model) -> str:
    """Say where one model departs from what is usual for the benchmark; empty where nowhere."""
    text = "; ".join(model.departures)
    return f"departs from {view.benchmark['name']}'s defaults: {text}" if text else ""


def departing(view: View) -> list[str]:
    """Say what is not asked or drawn as is usual for the benchmark: in a line, or one a model."""
    name = view.benchmark["name"]
    by_label = {model.label: model.departures for model in (*view.models, *view.unsampled)}
    if len(set(by_label.values())) == 1:
        by_label = {"": next(iter(by_label.values()))}
    return [
        f"{f'{label} departs' if label else 'Departs'} from {name}'s defaults: {'; '.join(parts)}."
        for label, parts in by_label.items()
        if parts
    ]


def quantity(scorer: HasRange) -> str:
    """The name of the expected leakage of a scorer."""
    return "leak probability" if scorer.binary else "mean score"


def between(scorer: HasRange, lower: float, upper: float) -> str:
    """Say what is known of the expected leakage of one question."""
    verb = "leaks with probability" if scorer.binary else "has a mean score"
    return f"{verb} between {below(lower)} and {above(upper)}"


def quantities(scorers: Sequence[ScorerView]) -> str:
    """The names of those of several scorers, each once, in their order."""
    return " or ".join(dict.fromkeys(quantity(scorer) for scorer in scorers))


def _greedy(model: Model, scorer: ScorerView) -> str:
    scores = known(greedy_rows(model, scorer))
    if not scores:
        return "no greedy answer has a score"
    if scorer.binary:
        return f"the greedy answers leak on {scores.count(1)} of {many(len(scores), 'question')}"
    average = sum(scores) / len(scores)
    return f"the greedy answers score {number(average)} on average, {number(max(scores))} at most"


def _sampled(view: View, model: Model, scorer: ScorerView) -> str:
    worst = model.rows.leakage(scorer.name, scope="worst question")
    if worst is None:
        missing = len(view.questions) - len(model.cells(scorer))
        return (
            f"{missing} of {many(len(view.questions), 'question')} could not be sampled, so "
            "nothing is claimed about the worst question"
        )
    ends = between(scorer, worst.lower, worst.upper)
    return f"sampled at {model.decoding.name}, the worst question {ends}"
