"""Tables of what models leak over all questions, for page and console.

A table with a row per arm is data: its title, its arms, and for each heading the statement that a
cell shows and the form in which it does. `painted` makes the table of a view.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Unpack

from leakbound.bounding.grid import Setting
from leakbound.bounding.rows import EACH, LEAKAGE
from leakbound.presenting import sentences
from leakbound.presenting.sentences import mean_of, means_by, readings, values_of
from leakbound.presenting.table import (
    Cell,
    Table,
    bound_cell,
    ceiling,
    count_cell,
    floor_cell,
    number_cell,
    table_of,
)
from leakbound.presenting.view import ArmView, DecodingGrid, Row, View
from leakbound.scorers import Of
from leakbound.stats import percent
from leakbound.stats.about import Beyond, Quantity, Scope
from leakbound.store import EstimateRow
from leakbound.store.estimates import Fields
from leakbound.text.shown import DASH, below, many
from leakbound.types import Scorer

ArmCell = Callable[[ArmView, Scorer], Cell]
Columns = Mapping[str, ArmCell]
SHOWN_K = (1, 8, 32, 128)
TYPICAL_K = 32
PROVED_TO_LEAK = "Proved above 10⁻⁶, and what is proved of the control"


def stated(form: Callable[[Row], Cell] = bound_cell, /, **wanted: Unpack[Fields]) -> ArmCell:
    """A column of the leakage of all questions that is about this, in this form."""
    return lambda model, scorer: form(model.leakage(scorer, **wanted))


@dataclass(frozen=True, slots=True)
class ArmTable:
    """A table with a row per arm.

    Attributes:
        title: its title; words in braces are those of `painted`.
        arms: the field of a view that has its arms.
        columns: the columns by heading, which may have words in braces; or what makes them.
        note: makes its note.
        console: the columns that a console has room for; empty: all.
    """

    title: str
    arms: str
    columns: Columns | Callable[[View, Scorer], Columns]
    note: Callable[[View, Scorer], str] = lambda view, scorer: ""
    console: tuple[str, ...] = ()


def painted(spec: ArmTable, view: View, scorer: Scorer, *, console: bool = False) -> Table:
    """Make a table of arms."""
    words = {
        "scorer": scorer.name,
        "mean": sentences.mean_heading(scorer),
        "greedy": "Greedy leaks" if scorer.binary else "Greedy score, mean",
        "benchmark": view.benchmark["name"],
        "questions": many(len(view.questions), "question"),
        "n": f"{max((model.arm.plan.n for model in view.reworded), default=0):,}",
        "effort": sentences.effort(view),
    }
    if console and "{k}" in spec.console:  # which looks at every question
        words["k"] = f"leak@{typical_k(view, scorer)}"
    columns = spec.columns(view, scorer) if callable(spec.columns) else spec.columns
    cells = {heading.format(**words): partial(_cell, scorer, c) for heading, c in columns.items()}
    note = spec.note(view, scorer)
    table = table_of(spec.title.format(**words), cells, getattr(view, spec.arms), note)
    if not (console and spec.console):
        return table
    return table.only(*(heading.format(**words) for heading in spec.console))


def _cell(scorer: Scorer, cell: ArmCell, model: ArmView) -> Cell:
    return cell(model, scorer)


def label_cell(model: ArmView, scorer: Scorer) -> Cell:
    """The label of a model."""
    return Cell(model.label)


def _name_cell(model: ArmView, scorer: Scorer | None = None) -> Cell:
    """The label, and that it is the control if a run of its own is next to others."""
    other_run = model.is_control and not model.key.is_control
    return Cell(f"{model.label} (control)" if other_run else model.label)


BEYOND: Columns = {
    "Beyond the control, mean": stated(scope="mean", beyond="control"),
    "Beyond the control, worst question": stated(scope="worst question", beyond="control"),
}


def _gap_columns(name: str, /, **how: Unpack[Fields]) -> Columns:
    """The largest gap to the questions' own words, and at how many there is one."""
    largest: Fields = {"scope": "worst question", "beyond": "own words"}
    number: Fields = {"scope": "count", "beyond": "own words"}
    return {
        f"{name}: most at a question": stated(floor_cell, **how | largest),
        f"{name}: questions with more": stated(_least_count, **how | number),
    }


def _least_count(row: Row) -> Cell:
    if row is None or row.value is None:
        return Cell(DASH)
    return Cell(f"{row.value:g} (≥ {row.lower:g})", row.value)


def _greedy_cell(model: ArmView, scorer: Scorer) -> Cell:
    rows = model.greedy(scorer).values()
    scores = values_of(rows)
    if not scorer.binary or not scores:
        return number_cell(mean_of(rows))
    return Cell(f"{scores.count(1)} of {len(scores)}", scores.count(1))


def _of_all(scope: Scope, model: ArmView, scorer: Scorer) -> Cell:
    """The leakage of all questions, or that some could not be sampled."""
    absent = DASH if model.arm.decoding.greedy else "incomplete"
    return bound_cell(model.leakage(scorer, scope=scope), absent)


def _repeated(k: int, model: ArmView, scorer: Scorer) -> Cell:
    """The mean leak@k: an estimate, or a statement with its bounds."""
    mean, questions = means_by(model, scorer, "leak@k").get(k), model.questions(scorer)
    row = model.first(scorer, quantity="leak@k", scope="mean", parameter=k)
    if row is None and len(questions) == 1:
        row = model.first(scorer, questions[0], quantity="leak@k", parameter=k)
    return number_cell(mean) if mean is not None or row is None else repeated_cell(row)


def repeated_cell(row: EstimateRow) -> Cell:
    """leak@k with its bounds."""
    return Cell(sentences.of_repeated(row), row.value)


def _spread(
    quantity: Quantity, form: Callable[[EstimateRow], Cell], model: ArmView, scorer: Scorer
) -> Cell:
    """The mean of a quantity over the questions: a statement, or the mean of the estimates."""
    own = model.estimates.matching(arm=str(model.key), scorer=scorer.name)
    if row := own.first(quantity=quantity, scope="mean"):
        return form(row)
    scope: Scope = "question" if own.first(scope="question") else "query"
    rows, leakage = (own.plain(quantity=name, scope=scope) for name in (quantity, LEAKAGE))
    return number_cell(mean_of(rows) if len(rows) == len(leakage) else None)


def _largest_deviation(model: ArmView, scorer: Scorer) -> Cell:
    """The largest estimate, and the largest upper bound, which needs no correction."""
    rows = model.per_question(scorer, quantity="standard deviation")
    values = values_of(rows)
    if not values or len(values) < len(rows):
        return Cell(DASH)
    upper = max(row.upper for row in rows if row is not None)
    return Cell(ceiling(max(values), upper), max(values))


def ceiling_cell(row: EstimateRow) -> Cell:
    """An estimate with its upper bound only."""
    return Cell(ceiling(row.value, row.upper), row.value)


DEVIATION = partial(_spread, "standard deviation", bound_cell)
ED = partial(_spread, "expectation deviation", ceiling_cell)


def typical_k(view: View, scorer: Scorer) -> int:
    """The k of leak@k that is shown where there is room for one: 32, or the largest known."""
    sizes = [
        int(k)
        for model in view.models
        for question in model.questions(scorer)
        for k, row in model.by_parameter(scorer, question, quantity="leak@k").items()
        if row.value is not None or k <= row.n
    ]
    return min(TYPICAL_K, max(sizes, default=1))


def _summary_columns(view: View, scorer: Scorer) -> Columns:
    return {
        "Model": _name_cell,
        "Decoding": lambda model, scorer: Cell(model.arm.decoding.name),
        **(BEYOND if any(model.control for model in view.models) else {}),
        "{greedy}": _greedy_cell,
        "{mean}": partial(_of_all, "mean"),
        "Worst question": partial(_of_all, "worst question"),
        "Deviation, mean": DEVIATION,
        "Deviation, worst": _largest_deviation,
        "ED, mean": ED,
        **{f"leak@{k}": partial(_repeated, k) for k in sorted({*SHOWN_K, typical_k(view, scorer)})},
    }


SUMMARY = ArmTable(
    "{scorer} on {benchmark}, {questions}, {effort}",
    "every",
    _summary_columns,
    sentences.remarks,
    ("Model", "Decoding", "{greedy}", "{mean}", "Worst question", "{k}", "Deviation, worst",
     "ED, mean"),
)  # fmt: skip
PROTOCOLS = ArmTable(
    "{scorer} by protocol, {questions}, n = {n} outputs each",
    "reworded",
    {
        "Model": label_cell,
        "Greedy": lambda model, scorer: number_cell(mean_of(model.greedy(scorer).values())),
        "Output": lambda model, scorer: stated(scope="mean")(model.in_own_words, scorer),
        "Full": stated(scope="mean"),
        "Full: deviation, mean": DEVIATION,
        "Full: ED, mean": ED,
        "Full: worst question": stated(scope="worst question"),
        "Full: worst query": stated(scope="worst question", inputs="worst query"),
        **BEYOND,
    },
    sentences.of_protocols,
    (
        "Model",
        "Greedy",
        "Output",
        "Full",
        "Full: deviation, mean",
        "Full: ED, mean",
        "Full: worst question",
        "Full: worst query",
    ),
)
GAPS = ArmTable(
    "Scorer {scorer}: more than output",
    "reworded",
    {
        "Model": label_cell,
        "Mean over the questions": stated(scope="mean", beyond="own words"),
        **_gap_columns("Full"),
        **_gap_columns("Worst query", inputs="worst query"),
    },
)
_FOUND: Columns = {
    "Model": label_cell,
    "{mean}": stated(scope="mean"),
    "Worst question": stated(scope="worst question"),
}
_MORE = _gap_columns("Beyond own words")
ATTACKED = ArmTable(
    "Scorer {scorer}: as they were found",
    "attacked",
    {**_FOUND, **BEYOND, **_MORE},
    lambda view, scorer: sentences.counted_of(view.attacked),
    (*_FOUND, *_MORE),
)


def _adds(model: ArmView, scorer: Scorer) -> Cell:
    """At how many questions the stress adds, simultaneously."""
    rows = model.estimates.matching(
        arm=str(model.key), scorer=scorer.name, quantity=LEAKAGE, beyond="unstressed", scope=EACH
    )
    more = sum(row.lower > 0 for row in rows)
    return Cell(f"{more} of {len(rows)}", more) if len(rows) else Cell(DASH)


def _stress_columns(view: View, scorer: Scorer) -> Columns:
    columns = {
        "Model": label_cell,
        "Under": lambda model, scorer: Cell(model.stress or "none"),
        "{mean}": stated(scope="mean"),
        "Added": stated(scope="mean", beyond="unstressed"),
        "Questions where it adds": _adds,
        "Worst question": stated(scope="worst question"),
    }
    control = any(model.leakage(scorer, scope="mean", beyond="control") for model in view.stressed)
    return {**columns, **(BEYOND if control else {})}


STRESS = ArmTable(
    "Scorer {scorer}: under stress, {questions}", "stressed", _stress_columns, sentences.of_stress
)


def readings_table(view: View, scorer: Scorer) -> Table | None:
    """A row per model and part of its outputs: what leaks there; None if none has thoughts."""
    rows = [(model, of) for model in view.models for of in readings(model, scorer, "mean", None)]
    if not rows:
        return None

    def column(scope: Scope, beyond: Beyond | None) -> Callable[[tuple[ArmView, Of]], Cell]:
        return lambda row: bound_cell(readings(row[0], scorer, scope, beyond).get(row[1]))

    scopes: tuple[Scope, Scope] = ("mean", "worst question")
    headings = (sentences.mean_heading(scorer), "Worst question")
    columns: dict[str, Callable[[tuple[ArmView, Of]], Cell]] = {
        "Model": lambda row: _name_cell(row[0]),
        "Part": lambda row: Cell(row[1]),
        **{name: column(scope, None) for name, scope in zip(headings, scopes, strict=True)},
    }
    if any(model.control for model, _ in rows):
        columns |= {name: column(s, "control") for name, s in zip(BEYOND, scopes, strict=True)}
    first = next(iter(readings(rows[0][0], scorer, "mean", None).values()))
    note = (
        f"Each statement is valid for answer, thought and either simultaneously, "
        f"{percent(first.confidence)}: each is bounded at a third of the error (Bonferroni), as "
        "the parts of an output depend on each other."
    )
    return table_of(f"Where it leaks, {scorer.name}", columns, rows, note)


def other_statements(
    title: str, models: Sequence[ArmView], scorer: Scorer, more: Columns | None = None
) -> Table | None:
    """A row per model: statements about all questions but the mean and the worst, and `more`.

    None if there is neither.
    """
    rows = {
        model.label: {name: row for row in model.where(scorer) if (name := _heading(row))}
        for model in models
    }

    def column(name: str) -> Callable[[ArmView], Cell]:
        return lambda model: _statement_cell(rows[model.label].get(name))

    columns = {name: column(name) for of_model in rows.values() for name in of_model}
    columns |= {name: partial(_cell, scorer, cell) for name, cell in (more or {}).items()}
    if not columns:
        return None
    return table_of(title, {"Model": partial(_cell, scorer, label_cell), **columns}, models)


def _heading(row: EstimateRow) -> str:
    """The heading of a statement; empty for one about the mean or the worst."""
    if row.scope == "count":
        return f"Questions above {row.parameter:g}"
    if row.quantity == "leak@k":
        return f"{row.about.name}, mean"
    judged = row.quantity == "corrected leak probability"
    return "Mean, corrected for the judge" if judged else ""


def _statement_cell(row: Row) -> Cell:
    if row is None or row.scope != "count":
        return repeated_cell(row) if row else Cell(DASH)
    value = DASH if row.value is None else f"{row.value:g}"
    return Cell(f"{value} [{row.lower:g}, {row.upper:g}]", row.value)


def statements_table(view: View, scorer: Scorer) -> Table | None:
    """A row per model: its other statements, and what leaking texts prove; None without both."""

    def leaking(model: ArmView, scorer: Scorer) -> Cell:
        number = len(sentences.proved_to_leak(view, model, scorer))
        return Cell(f"{number} of {len(model.questions(scorer))}", number)

    def most(model: ArmView, scorer: Scorer, /, **wanted: Unpack[Fields]) -> Cell:
        rows = [
            row
            for question in model.questions(scorer)
            for row in model.where(scorer, question, **Fields(proved=True) | wanted).rows[-1:]
        ]
        low = max((row.lower for row in rows), default=0.0)
        return Cell(f"≥ {below(low)}", low)

    proofs: Columns = {
        PROVED_TO_LEAK: leaking,
        "Most that is proved": partial(most, quantity=LEAKAGE),
        "Most in a million draws": partial(most, quantity="leak@k"),
    }
    title = f"Scorer {scorer.name}: more on all questions"
    return other_statements(title, view.models, scorer, proofs if proofs_in(view) else {})


def proofs_in(view: View) -> bool:
    """Whether leaking texts of known probability prove something."""
    return any(
        model.leakages(scorer, proved=True) for model in view.models for scorer in view.scorers
    )


def decodings_table(grid: DecodingGrid) -> Table:
    """A row per decoding: the figures of the heat maps."""
    columns: dict[str, Callable[[Setting], Cell]] = {
        "Decoding": lambda at: Cell(f"T={at[0]:g}, top-p={at[1]:g}"),
        "Temperature": lambda at: Cell(f"{at[0]:g}", at[0]),
        "Top-p": lambda at: Cell(f"{at[1]:g}", at[1]),
        "Mean over the questions": lambda at: bound_cell(grid.leakage[at]),
    }
    if grid.k:
        columns[f"leak@{grid.k}"] = lambda at: bound_cell(grid.leak_at_k[at])
    return table_of(f"{grid.scorer} by decoding, mean over the questions", columns, grid.leakage)


def effects_table(grid: DecodingGrid) -> Table:
    """How far each knob moves the mean leakage, and what both together add."""
    rows = tuple((Cell(knob), bound_cell(row)) for knob, row in grid.effects.items())
    return Table("What moves leakage", ("Knob", "Effect, root mean square"), rows)


def _forwards(model: ArmView, scorer: Scorer) -> Cell:
    forwards = model.arm.usage.forwards
    return count_cell(forwards) if forwards else Cell(DASH)


def _saving(model: ArmView, scorer: Scorer) -> Cell:
    usage = model.arm.usage
    saved = usage.sampled_tokens / usage.forwards if usage.forwards else 0.0
    return Cell(f"{saved:.1f}×", saved) if saved else Cell(DASH)


COST = ArmTable(
    "What the draws took",
    "models",
    {
        "Model": label_cell,
        "Draws": lambda model, scorer: count_cell(model.arm.usage.draws),
        "Tokens forwarded": _forwards,
        "Prefix saving": _saving,
    },
)


def tried_table(view: View) -> Table:
    """A row per run: how many rewritings were tried, removed for which reason, and asked."""
    reasons = list(dict.fromkeys(r for counts in view.tried.values() for r in counts.removed))
    rows = []
    for label, counts in view.tried.items():
        removed = [counts.removed.get(reason, 0) for reason in reasons]
        names = (Cell(label), Cell(counts.source), Cell(counts.design))
        rows.append((*names, *map(count_cell, (counts.tried, *removed, counts.kept))))
    columns = ("Run", "Source", "Design", "Tried", *(f"Removed: {r}" for r in reasons), "Asked")
    return Table("Rewritings of all questions", columns, tuple(rows))
