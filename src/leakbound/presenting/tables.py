"""Tables of leakage over all questions, for pages and consoles.

An `ArmTable` describes a table with a row per arm: its title, its arms, and a function for each
column. `painted` makes the table for a view.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, Unpack

from leakbound.bounding.grid import Setting
from leakbound.bounding.rows import ALL_K, EACH, LEAKAGE
from leakbound.presenting import sentences
from leakbound.presenting.overall import each, largest, mean, mean_of
from leakbound.presenting.sentences import readings
from leakbound.presenting.table import Cell, Shown, Table, table_of
from leakbound.presenting.templates import mean_heading, say
from leakbound.presenting.view import ArmView, DecodingGrid, View
from leakbound.scorers import Of
from leakbound.stats.about import Beyond, Quantity, Scope
from leakbound.store import EstimateRow
from leakbound.store.estimates import Fields
from leakbound.text.shown import DASH, below, many
from leakbound.types import Scorer

Column: TypeAlias = Callable[[ArmView, Scorer], Shown]
Columns: TypeAlias = Mapping[str, Column]
Part: TypeAlias = tuple[ArmView, Of]
SHOWN_K = (8, 32, 128)  # leak@1 is the mean leakage, which has its own column
TYPICAL_K = 32
PROVED_TO_LEAK = "Questions proved above 10⁻⁶ and above the control"


def stated(**wanted: Unpack[Fields]) -> Column:
    """Return a column with the statement about all questions that matches `wanted`."""
    return lambda model, scorer: model.leakage(scorer, **wanted)


def averaged(quantity: Quantity) -> Column:
    """Return a column with the mean of a quantity over the questions."""
    return lambda model, scorer: mean(model, scorer, quantity)


@dataclass(frozen=True, slots=True)
class ArmTable:
    """The description of a table with a row per arm.

    Attributes:
        title: the title of the table; `painted` replaces words in braces.
        arms: the name of the field of `View` with the arms of the table.
        columns: the columns by heading, or a function that returns them. Headings may have words in
            braces too.
        note: a function that returns the note below the table.
        console: the headings of the columns that a console shows; if empty, all columns.
    """

    title: str
    arms: str
    columns: Columns | Callable[[View, Scorer], Columns]
    note: Callable[[View, Scorer], str] = lambda view, scorer: ""
    console: tuple[str, ...] = ()


def painted(spec: ArmTable, view: View, scorer: Scorer, *, console: bool = False) -> Table:
    """Return the table that `spec` describes; `console`: only with the columns for a console."""
    words = {
        "scorer": scorer.name,
        "mean": mean_heading(scorer),
        "greedy": "Greedy leaks" if scorer.binary else "Greedy score, mean",
        "benchmark": view.benchmark["name"],
        "questions": many(len(view.questions), "question"),
        "n": f"{max((model.arm.plan.n for model in view.reworded), default=0):,}",
        "effort": sentences.effort(view),
    }
    if console and "{k}" in spec.console:  # only if needed: k depends on every question
        words["k"] = f"leak@{typical_k(view, scorer)}"
    columns = spec.columns(view, scorer) if callable(spec.columns) else spec.columns
    named = {heading.format(**words): column for heading, column in columns.items()}
    title, models = spec.title.format(**words), getattr(view, spec.arms)
    table = of_arms(title, named, models, scorer, spec.note(view, scorer))
    if not (console and spec.console):
        return table
    return table.only(*(heading.format(**words) for heading in spec.console))


def of_arms(
    title: str, columns: Columns, models: Sequence[ArmView], scorer: Scorer, note: str = ""
) -> Table:
    """Return a table with a row per arm and these columns."""
    rows = ([column(model, scorer) for column in columns.values()] for model in models)
    return Table.plain(title, tuple(columns), rows, note)


def _label(model: ArmView, scorer: Scorer) -> str:
    return model.label


def _name(model: ArmView, scorer: Scorer) -> str:
    """Return the label, marked “(control)” if the model is the target of another run."""
    other_run = model.is_control and not model.key.is_control
    return f"{model.label} (control)" if other_run else model.label


BEYOND: Columns = {
    "Excess over the control, mean": stated(scope="mean", beyond="control"),
    "Excess over the control, worst question": stated(scope="worst question", beyond="control"),
}


def _gap_columns(name: str, /, **how: Unpack[Fields]) -> Columns:
    """Return two columns: the largest gap of a question, and the number of positive gaps."""
    most, number = (how | Fields(scope=s, beyond="own words") for s in ("worst question", "count"))
    return {
        f"{name}: largest gap": stated(**most),
        f"{name}: questions with a gap": stated(**number),
    }


def _greedy(model: ArmView, scorer: Scorer) -> Shown:
    scores = [*model.greedy_scores(scorer).values()]
    if not scorer.binary or not scores:
        return mean(model, scorer, "greedy score")
    return Cell(f"{scores.count(1)} of {len(scores)}", scores.count(1))


def _of_all(scope: Scope, model: ArmView, scorer: Scorer) -> Shown:
    """Return the leakage of all questions, or “incomplete” if a question could not be sampled."""
    absent = DASH if model.arm.decoding.greedy else "incomplete"
    return model.leakage(scorer, scope=scope) or absent


def _repeated(k: int, model: ArmView, scorer: Scorer) -> Shown:
    """Return the statement about the mean leak@k; if there is none, the mean of the estimates."""
    of_mean = Fields(quantity="leak@k", scope="mean", parameter=k)
    together = of_mean | Fields(family="leak@k")
    row = model.first(scorer, **of_mean) or model.first(scorer, **together)
    rows = each(model, scorer, "leak@k", k)
    if row is None and len(rows) == 1:
        row = rows[0]
    return row or mean_of(rows)


def typical_k(view: View, scorer: Scorer) -> int:
    """Return the k of a single leak@k column: 32, or the largest smaller k with estimates."""
    own: Fields = {"scorer": scorer.name, "quantity": "leak@k", "scope": EACH}
    arms = (model.estimates.plain(**own | Fields(arm=str(model.key))) for model in view.models)
    every = (row for rows in arms for row in rows)
    sure = (row for row in every if row.value is not None or (row.parameter or 0) <= row.n)
    return min(TYPICAL_K, max((int(row.parameter or 1) for row in sure), default=1))


DEVIATION, ED = averaged("standard deviation"), averaged("expectation deviation")


def _summary_columns(view: View, scorer: Scorer) -> Columns:
    return {
        "Model": _name,
        "Decoding": lambda model, scorer: model.arm.decoding.name,
        **(BEYOND if any(model.control for model in view.models) else {}),
        "{greedy}": _greedy,
        "{mean}": partial(_of_all, "mean"),
        "Worst question": partial(_of_all, "worst question"),
        "Deviation, mean": DEVIATION,
        "Deviation, worst": lambda model, scorer: largest(model, scorer, "standard deviation"),
        "ED, mean": ED,
        **{f"leak@{k}": partial(_repeated, k) for k in sorted({*SHOWN_K, typical_k(view, scorer)})},
    }


SUMMARY = ArmTable(
    "Scorer {scorer}, benchmark “{benchmark}”: {questions}, {effort}",
    "every",
    _summary_columns,
    sentences.remarks,
    ("Model", "Decoding", "{greedy}", "{mean}", "Worst question", "{k}", "Deviation, worst",
     "ED, mean"),
)  # fmt: skip
_BY_PROTOCOL: Columns = {
    "Model": _label,
    "Greedy": averaged("greedy score"),
    "Original wording": lambda model, scorer: model.in_own_words.leakage(scorer, scope="mean"),
    "Full": stated(scope="mean"),
    "Full: deviation, mean": DEVIATION,
    "Full: ED, mean": ED,
    "Full: worst question": stated(scope="worst question"),
    "Full: worst query": stated(scope="worst question", inputs="worst query"),
}
PROTOCOLS = ArmTable(
    "Scorer {scorer}: leakage by protocol, {questions}, n = {n} outputs per question",
    "reworded",
    {**_BY_PROTOCOL, **BEYOND},
    sentences.of_protocols,
    (*_BY_PROTOCOL,),
)
GAPS = ArmTable(
    "Scorer {scorer}: additional leakage when the question is reworded",
    "reworded",
    {
        "Model": _label,
        "Full: mean gap": stated(scope="mean", beyond="own words"),
        **_gap_columns("Full"),
        **_gap_columns("Worst query", inputs="worst query"),
    },
    lambda view, scorer: say("gap"),
)
_OF_ATTACK: Columns = {
    "Model": _label,
    "{mean}": stated(scope="mean"),
    "Worst question": stated(scope="worst question"),
}
_BEYOND_OWN = _gap_columns("Compared with the original question")
ATTACKED = ArmTable(
    "Scorer {scorer}: worst query found",
    "attacked",
    {**_OF_ATTACK, **BEYOND, **_BEYOND_OWN},
    lambda view, scorer: sentences.counted_of(view.attacked),
    (*_OF_ATTACK, *_BEYOND_OWN),
)


def _adds(model: ArmView, scorer: Scorer) -> Shown:
    """Return the number of questions at which the stress is shown to add leakage.

    The bounds on the added leakage of all questions are valid simultaneously.
    """
    rows = model.estimates.matching(
        arm=str(model.key), scorer=scorer.name, quantity=LEAKAGE, beyond="unstressed", scope=EACH
    )
    more = sum(row.lower > 0 for row in rows)
    return Cell(f"{more} of {len(rows)}", more) if len(rows) else None


def _stress_columns(view: View, scorer: Scorer) -> Columns:
    control = any(model.leakage(scorer, scope="mean", beyond="control") for model in view.stressed)
    return {
        "Model": _label,
        "Stress": lambda model, scorer: model.stress or "none",
        "{mean}": stated(scope="mean"),
        "Added leakage": stated(scope="mean", beyond="unstressed"),
        "Questions with added leakage": _adds,
        "Worst question": stated(scope="worst question"),
        **(BEYOND if control else {}),
    }


STRESS = ArmTable(
    "Scorer {scorer}: under stress, {questions}", "stressed", _stress_columns, sentences.of_stress
)


def _saving(model: ArmView, scorer: Scorer) -> Shown:
    usage = model.arm.usage
    saved = usage.sampled_tokens / usage.forwards if usage.forwards else 0.0
    return Cell(f"{saved:.1f}×", saved) if saved else None


COST = ArmTable(
    "Cost of the draws",
    "models",
    {
        "Model": _label,
        "Draws": lambda model, scorer: model.arm.usage.draws,
        "Tokens forwarded": lambda model, scorer: model.arm.usage.forwards or None,
        "Prefix saving": _saving,
    },
)


def readings_table(view: View, scorer: Scorer) -> Table | None:
    """Return a table with a row per model and part of its outputs.

    The result is None without visible thoughts.
    """
    rows = [(model, of) for model in view.models for of in readings(model, scorer, "mean", None)]
    if not rows:
        return None

    def column(scope: Scope, beyond: Beyond | None = None) -> Callable[[Part], Shown]:
        return lambda row: readings(row[0], scorer, scope, beyond).get(row[1])

    columns: dict[str, Callable[[Part], Shown]] = {
        "Model": lambda row: _name(row[0], scorer),
        "Part of the output": lambda row: row[1],
        mean_heading(scorer): column("mean"),
        "Worst question": column("worst question"),
    }
    if any(model.control for model, _ in rows):
        excess: Sequence[Scope] = ("mean", "worst question")
        columns |= {h: column(scope, "control") for h, scope in zip(BEYOND, excess, strict=True)}
    first = next(iter(readings(rows[0][0], scorer, "mean", None).values()))
    title = f"Scorer {scorer.name}: leakage by part of the output"
    return table_of(title, columns, rows, say("readings", row=first))


def other_statements(
    title: str, models: Sequence[ArmView], scorer: Scorer, more: Columns | None = None
) -> Table | None:
    """Return a table with a row per model and columns for counts, leak@k and corrected means.

    `more`: more columns. The result is None if there are no such statements and no more columns.
    """
    statements = {
        model.label: {heading: row for row in model.where(scorer) if (heading := _heading(row))}
        for model in models
    }
    headings = dict.fromkeys(heading for own in statements.values() for heading in own)
    if not headings and not more:
        return None
    columns: dict[str, Column] = {
        heading: partial(
            lambda heading, model, scorer: statements[model.label].get(heading), heading
        )
        for heading in headings
    }
    return of_arms(title, {"Model": _label, **columns, **(more or {})}, models, scorer)


def _heading(row: EstimateRow) -> str:
    """Return the heading of the column of a statement; empty if another table shows it."""
    if row.scope == "count":
        return f"Questions above {row.parameter:g}"
    if row.quantity == "leak@k":
        return f"{row.about.name}, mean"
    judged = row.quantity == "corrected leak probability"
    return "Mean, corrected for the judge" if judged else ""


def statements_table(view: View, scorer: Scorer) -> Table | None:
    """Return a table of other statements and proved bounds, a row per model; None if empty."""

    def leaking(model: ArmView, scorer: Scorer) -> Shown:
        number = len(sentences.proved_to_leak(view, model, scorer))
        return Cell(f"{number} of {len(model.questions(scorer))}", number)

    def proof(wanted: Fields, model: ArmView, scorer: Scorer) -> Shown:
        shown = (wanted | Fields(scope=scope, proved=True) for scope in scopes)
        lows = [row.lower if (row := model.first(scorer, **w)) else 0.0 for w in shown]
        return Cell("; ".join(f"≥ {below(low)}" for low in lows), lows[1])

    scopes: tuple[Scope, ...] = ("mean", "worst question")
    kinds: Mapping[str, Fields] = {
        "leakage": {"quantity": LEAKAGE},
        f"leak@{ALL_K[-1]:,}": {"quantity": "leak@k", "parameter": ALL_K[-1]},
    }
    proofs: Columns = {PROVED_TO_LEAK: leaking} | {
        f"Proved {name}, mean; worst": partial(proof, kind) for name, kind in kinds.items()
    }
    title = f"Scorer {scorer.name}: other statements about all questions"
    return other_statements(title, view.models, scorer, proofs if proofs_in(view) else {})


def proofs_in(view: View) -> bool:
    """Return whether a leaking text of known probability proves a leak of any model."""
    return any(
        model.leakage(scorer, scope="mean", proved=True)
        for model in view.models
        for scorer in view.scorers
    )


def decodings_table(grid: DecodingGrid) -> Table:
    """Return a table with a row per decoding and the numbers of the heat maps."""
    columns: dict[str, Callable[[Setting], Shown]] = {
        "Decoding": lambda at: f"T={at[0]:g}, top-p={at[1]:g}",
        "Temperature": lambda at: Cell(f"{at[0]:g}", at[0]),
        "Top-p": lambda at: Cell(f"{at[1]:g}", at[1]),
        "Mean over the questions": grid.leakage.get,
    }
    columns |= {f"leak@{grid.k}": grid.leak_at_k.get} if grid.k else {}
    return table_of(f"Scorer {grid.scorer}: mean leakage by decoding", columns, grid.leakage)


def effects_table(grid: DecodingGrid) -> Table:
    """Return a table of the effects of temperature, top-p and both together on the mean leakage."""
    columns = ("Setting of the decoding", "Effect, root mean square over the decodings")
    return Table.plain("Effects on the leakage", columns, grid.effects.items())


def tried_table(view: View) -> Table:
    """Return a table with a row per run: the numbers of rewritings tried, removed and used."""
    reasons = list(dict.fromkeys(r for counts in view.tried.values() for r in counts.removed))
    rows: list[list[Shown]] = []
    for label, counts in view.tried.items():
        removed = (counts.removed.get(reason, 0) for reason in reasons)
        rows.append([label, counts.source, counts.design, counts.tried, *removed, counts.kept])
    columns = ("Run", "Source", "Design", "Tried", *(f"Removed: {r}" for r in reasons), "Used")
    return Table.plain("Rewritings of all questions", columns, rows)
