"""Tables of what models leak, for page and console: of all questions, and one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeVar, Unpack

from leakbound.evaluation.statements.rows import LEAKAGE
from leakbound.evaluation.views.remarks import remarks, title_of
from leakbound.evaluation.views.table import (
    Cell,
    Table,
    bound_cell,
    count_cell,
    number_cell,
    table_of,
)
from leakbound.evaluation.views.view import (
    AskedModel,
    DecodingGrid,
    Measured,
    Model,
    Question,
    RewrittenModel,
    ScorerView,
    View,
)
from leakbound.evaluation.views.words import (
    ceiling,
    decision,
    greedy_rows,
    known,
    mean_of,
    means_by,
    of_count,
    of_repeated,
    proved_to_leak,
    quantity,
    read_rows,
)
from leakbound.scorers import Of
from leakbound.stats import percent
from leakbound.stats.about import Beyond, Quantity, Scope
from leakbound.store import EstimateRow
from leakbound.store.estimates import Fields
from leakbound.text.shown import DASH, below

Asked = Model | RewrittenModel | AskedModel
T = TypeVar("T", bound=Asked)
Column = Callable[[Asked], Cell]
SHOWN_K = (1, 8, 32, 128)
TYPICAL_K = 32
BEYOND = ("Beyond the control, mean", "Beyond the control, worst question")
PROVED_TO_LEAK = "Proved above 10⁻⁶, and what is proved of the control"


def summary_grid(view: View, scorer: ScorerView) -> Table:
    """A row a model: what it leaks beyond its control, its greedy answers, its distribution.

    Without a control no column speaks of one.
    """

    def of_all(model: Model, scope: Scope) -> Cell:
        absent = DASH if model.decoding.greedy else "incomplete"
        return bound_cell(model.rows.leakage(scorer.name, scope=scope), absent)

    def rows_of(model: Model, quantity: Quantity) -> list[EstimateRow | None]:
        return [cell.rows.first(quantity=quantity) for cell in model.cells(scorer)]

    def repeated(k: int, model: Model) -> Cell:
        cells = model.cells(scorer)
        mean = means_by(cells, "leak@k").get(k)
        row = model.rows.of(scorer.name).first(quantity="leak@k", scope="mean", parameter=k)
        if row is None and len(cells) == 1:
            row = cells[0].by_parameter("leak@k").get(k)
        return number_cell(mean) if mean is not None or row is None else Cell(of_repeated(row))

    columns: dict[str, Callable[[Model], Cell]] = {
        "Model": _name_cell,
        "Decoding": lambda model: Cell(model.decoding.name),
        **(beyond_columns(scorer) if any(model.control for model in view.models) else {}),
        greedy_heading(scorer): lambda model: _greedy_cell(model, scorer),
        mean_heading(scorer): lambda model: of_all(model, "mean"),
        "Worst question": lambda model: of_all(model, "worst question"),
        "Deviation, mean": partial(spread_cell, scorer, "standard deviation", bound_cell),
        "Deviation, worst": lambda model: _largest_cell(rows_of(model, "standard deviation")),
        "ED, mean": partial(spread_cell, scorer, "expectation deviation", ceiling_cell),
    }
    for k in sorted({*SHOWN_K, typical_k(view, scorer)}):
        columns[f"leak@{k}"] = partial(repeated, k)
    models = (*view.models, *view.unsampled)
    return table_of(title_of(view, scorer), columns, models, remarks(view, scorer))


def readings_grid(view: View, scorer: ScorerView) -> Table | None:
    """A row a model and part of its outputs: what leaks there; None where none has thoughts."""
    scopes: tuple[Scope, Scope] = ("mean", "worst question")
    read = [(model, of) for model in view.models for of in read_rows(model, scorer, "mean", None)]
    if not read:
        return None

    def column(scope: Scope, beyond: Beyond | None) -> Callable[[tuple[Model, Of]], Cell]:
        return lambda row: bound_cell(read_rows(row[0], scorer, scope, beyond).get(row[1]))

    headings = (mean_heading(scorer), "Worst question")
    columns: dict[str, Callable[[tuple[Model, Of]], Cell]] = {
        "Model": lambda row: _name_cell(row[0]),
        "Part": lambda row: Cell(row[1]),
        **{name: column(scope, None) for name, scope in zip(headings, scopes, strict=True)},
    }
    if any(model.control for model, _ in read):
        columns |= {name: column(s, "control") for name, s in zip(BEYOND, scopes, strict=True)}
    (first, *_) = read_rows(read[0][0], scorer, "mean", None).values()
    note = (
        f"Each statement is valid for answer, thought and either simultaneously, "
        f"{percent(first.confidence)}: each is bounded at a third of the error (Bonferroni), as "
        "the parts of an output depend on each other."
    )
    return table_of(f"Where it leaks, {scorer.name}", columns, read, note)


def greedy_heading(scorer: ScorerView) -> str:
    """The heading of the greedy answers."""
    return "Greedy leaks" if scorer.binary else "Greedy score, mean"


def mean_heading(scorer: ScorerView) -> str:
    """The heading of the mean leakage."""
    return f"Mean {quantity(scorer)}" if scorer.binary else "Mean score"


def typical_k(view: View, scorer: ScorerView) -> int:
    """The k of leak@k that is shown where there is room for one: 32, or as far as is known."""
    sizes = [
        int(k)
        for model in view.models
        for cell in model.cells(scorer)
        for k, row in cell.by_parameter("leak@k").items()
        if row.value is not None or k <= row.n
    ]
    return min(TYPICAL_K, max(sizes, default=1))


def leakage_column(scorer: ScorerView, /, **wanted: Unpack[Fields]) -> Column:
    """The leakage of all questions that is about this."""
    return lambda model: bound_cell(model.rows.leakage(scorer.name, **wanted))


def spread_cell(
    scorer: ScorerView, quantity: Quantity, shown: Callable[[EstimateRow], Cell], model: Asked
) -> Cell:
    """Return a mean over the questions: bounded if a bound is stated, else of their estimates."""
    own = model.rows.estimates.matching(arm=model.rows.arm, scorer=scorer.name)
    if row := own.first(quantity=quantity, scope="mean"):
        return shown(row)
    scope: Scope = "question" if own.first(scope="question") else "query"
    rows, leakage = (own.plain(quantity=name, scope=scope) for name in (quantity, LEAKAGE))
    return number_cell(mean_of(rows) if len(rows) == len(leakage) else None)


def beyond_columns(scorer: ScorerView) -> dict[str, Column]:
    """How much more that is than the control's, on average and where it is most."""
    mean = leakage_column(scorer, scope="mean", beyond="control")
    worst = leakage_column(scorer, scope="worst question", beyond="control")
    return dict(zip(BEYOND, (mean, worst), strict=True))


def label_cell(model: Asked) -> Cell:
    """The name of a model."""
    return Cell(model.label)


def statements_grid(view: View, scorer: ScorerView) -> Table | None:
    """A row a model: what else holds of all questions, and what leaking texts prove; or None."""

    def most(row_of: Callable[[Measured], EstimateRow | None], model: Model) -> Cell:
        rows = map(row_of, model.cells(scorer))
        end = max((row.lower for row in rows if row is not None), default=0.0)
        return Cell(f"≥ {below(end)}", end)

    proofs: dict[str, Callable[[Model], Cell]] = {
        PROVED_TO_LEAK: lambda model: _proved_cell(view, model, scorer),
        "Most that is proved": partial(most, lambda cell: cell.proved),
        "Most in a million draws": partial(most, lambda cell: cell.proved_leak_at_k),
    }
    title = f"Scorer {scorer.name}: more on all questions"
    return others_grid(title, view.models, scorer, proofs if proved(view) else {})


def others_grid(
    title: str,
    items: Sequence[T],
    scorer: ScorerView,
    more: Mapping[str, Callable[[T], Cell]] | None = None,
) -> Table | None:
    """A row a model: what is said of all questions but the mean and the worst, and these columns.

    None where there is neither.
    """

    def statements(model: Asked) -> dict[str, EstimateRow]:
        rows = model.rows.of(scorer.name).plain()
        return {name: row for row in rows if (name := _statement(row))}

    def cell(name: str, model: Asked) -> Cell:
        row = statements(model).get(name)
        if row is None:
            return Cell(DASH)
        return Cell((of_count if row.scope == "count" else of_repeated)(row), row.value)

    names = dict.fromkeys(name for model in items for name in statements(model))
    if not names and not more:
        return None
    stated = {name: partial(cell, name) for name in names}
    return table_of(title, {"Model": label_cell, **stated, **(more or {})}, items)


def questions_grid(view: View, scorer: ScorerView) -> Table:
    """A row a question: each model's greedy score, expected leakage with its bounds, and claim.

    Where one model stands beside its control, also how much more it leaks than that.
    """
    controlled = [model for model in view.models if model.control]
    columns_of: dict[str, dict[str, Callable[[Measured | None], Cell]]] = {
        model.label: {} for model in view.models
    }
    for model in view.models:
        columns = columns_of[model.label]
        columns["greedy"] = lambda cell: number_cell(cell.greedy if cell else None)
        columns[quantity(scorer)] = lambda cell: bound_cell(
            cell.leakage if cell else None, "not sampled"
        )
        columns |= dict.fromkeys(_claims(model, scorer), _claim_cell)
        if controlled == [model]:
            columns["beyond the control"] = lambda cell: bound_cell(cell.beyond if cell else None)
    rows = []
    for number_, question in enumerate(view.questions, 1):
        row = [Cell(f"{question.id}: {question.text}", number_, anchor(number_))]
        for model in view.models:
            cell = model.at(question.id, scorer)
            row += [column(cell) for column in columns_of[model.label].values()]
        rows.append(tuple(row))
    names = [f"{label}: {name}" for label, columns in columns_of.items() for name in columns]
    return Table(f"Scorer {scorer.name}: every question", ("Question", *names), tuple(rows))


def decodings_grid(grid: DecodingGrid) -> Table:
    """A row a decoding: the figures of the heat maps."""
    columns: dict[str, Callable[[tuple[float, float]], Cell]] = {
        "Decoding": lambda at: Cell(f"T={at[0]:g}, top-p={at[1]:g}"),
        "Temperature": lambda at: Cell(f"{at[0]:g}", at[0]),
        "Top-p": lambda at: Cell(f"{at[1]:g}", at[1]),
        "Mean over the questions": lambda at: bound_cell(grid.leakage[at]),
    }
    if grid.k:
        columns[f"leak@{grid.k}"] = lambda at: bound_cell(grid.leak_at_k[at])
    return table_of(f"{grid.scorer} by decoding, mean over the questions", columns, grid.leakage)


def effects_grid(grid: DecodingGrid) -> Table:
    """How far each knob moves the mean leakage, and what both together add."""
    rows = tuple((Cell(knob), bound_cell(bound)) for knob, bound in grid.effects.items())
    return Table("What moves leakage", ("Knob", "Effect, root mean square"), rows)


def cost_grid(view: View) -> Table:
    """A row a model: how much was drawn, and what that took."""

    def saving(model: Model) -> Cell:
        usage = model.usage
        saved = usage.sampled_tokens / usage.forwards if usage.forwards else 0.0
        return Cell(f"{saved:.1f}×", saved) if saved else Cell(DASH)

    columns: dict[str, Callable[[Model], Cell]] = {
        "Model": label_cell,
        "Draws": lambda model: count_cell(model.usage.draws),
        "Tokens forwarded": lambda model: (
            count_cell(model.usage.forwards) if model.usage.forwards else Cell(DASH)
        ),
        "Prefix saving": saving,
    }
    return table_of("What the draws took", columns, view.models)


def ceiling_cell(row: EstimateRow) -> Cell:
    """An estimate with its upper end alone."""
    return Cell(ceiling(row.value, row.upper), row.value)


def anchor(number_: int) -> str:
    """Where the texts of a question stand, numbered from 1."""
    return f"q-{number_}"


def question_at(view: View, anchor_: str) -> Question:
    """The question whose texts stand there."""
    return view.questions[int(anchor_.rpartition("-")[2]) - 1]


def proved(view: View) -> bool:
    """True if leaking texts were looked for that prove something."""
    return any(cell.proved for model in view.models for cell in model.measured.values())


def _statement(row: EstimateRow) -> str:
    """The heading of a statement; empty for a row that is no such statement."""
    if row.scope == "count":
        return f"Questions above {row.parameter:g}"
    if row.quantity == "leak@k":
        return f"{row.about.name}, mean"
    judged = row.quantity == "corrected leak probability"
    return "Mean, corrected for the judge" if judged else ""


def _name_cell(model: Model) -> Cell:
    """The label, and that it is the control where a run of its own stands beside others."""
    beside = model.is_control and not model.key.is_control
    return Cell(f"{model.label} (control)" if beside else model.label)


def _claims(model: Model, scorer: ScorerView) -> list[str]:
    """The claim that was made of the model's questions, if one was."""
    claims = (cell.claim for cell in model.cells(scorer))
    return list(dict.fromkeys(claim.about.claimed for claim in claims if claim is not None))


def _claim_cell(measured: Measured | None) -> Cell:
    claim = measured and measured.claim
    return Cell(f"{decision(claim)} after {claim.n:,}", claim.n) if claim else Cell(DASH)


def _proved_cell(view: View, model: Model, scorer: ScorerView) -> Cell:
    """How many questions are proved to leak."""
    leaking = len(proved_to_leak(view, model, scorer))
    return Cell(f"{leaking} of {len(model.cells(scorer))}", leaking)


def _greedy_cell(model: Model, scorer: ScorerView) -> Cell:
    rows = greedy_rows(model, scorer)
    scores = known(rows)
    if not scorer.binary or not scores:
        return number_cell(mean_of(rows))
    return Cell(f"{scores.count(1)} of {len(scores)}", scores.count(1))


def _largest_cell(bounds: Sequence[EstimateRow | None]) -> Cell:
    """The largest estimate, and the largest upper bound, which needs no correction."""
    values = known(bounds)
    if not values or len(values) < len(bounds):
        return Cell(DASH)
    upper = max(bound.upper for bound in bounds if bound is not None)
    return Cell(ceiling(max(values), upper), max(values))


Trait = Literal["beyond", "hidden", "shown", "open", "unsampled"]
TRAITS: dict[Trait, str] = {
    "beyond": "leaks beyond the control",
    "hidden": "leaks more than the greedy answer, each by itself",
    "shown": "with a leak in a text shown",
    "open": "claim not decided",
    "unsampled": "not sampled",
}
"""The traits that a question may be chosen by, in the words of a page."""


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """A question in the table of all.

    Attributes:
        number: its place in the benchmark, from 1.
        cells: one a column.
        traits: what holds of one target at least.
    """

    number: int
    cells: tuple[Cell, ...]
    traits: tuple[Trait, ...]


@dataclass(frozen=True, slots=True)
class ByQuestion:
    """Every question under one scorer, the worst first."""

    scorer: ScorerView
    columns: tuple[str, ...]
    rows: tuple[QuestionRow, ...]


def by_question(view: View, scorer: ScorerView) -> ByQuestion:
    """Every question under this scorer: what leaks most of any target comes first."""
    targets = view.targets
    table = questions_grid(view, scorer)

    def most(row: QuestionRow) -> tuple[float, float]:
        question = view.questions[row.number - 1].id
        cells = (model.at(question, scorer) for model in targets)
        leakages = [(c.leakage.value or 0.0, c.leakage.lower) for c in cells if c]
        return max(leakages, default=(-1.0, -1.0))

    rows = [
        QuestionRow(number, cells, _traits(targets, scorer, question.id))
        for number, (question, cells) in enumerate(zip(view.questions, table.rows, strict=True), 1)
    ]
    return ByQuestion(scorer, table.columns, tuple(sorted(rows, key=most, reverse=True)))


def _traits(targets: list[Model], scorer: ScorerView, question: str) -> tuple[Trait, ...]:
    cells = [cell for model in targets if (cell := model.at(question, scorer))]
    texts = [model.texts[question] for model in targets if question in model.texts]
    holds: dict[Trait, Callable[[], bool]] = {
        "beyond": lambda: any(c.surely_beyond and c.surely_beyond.lower > 0 for c in cells),
        "hidden": lambda: any(c.greedy is not None and c.leakage.lower > c.greedy for c in cells),
        "shown": lambda: any(text.leaks for group in texts for text in group.shown),
        "open": lambda: any(cell.claim is not None and cell.claim.value is None for cell in cells),
        "unsampled": lambda: len(cells) < len(targets),
    }
    return tuple(trait for trait in TRAITS if holds[trait]())
