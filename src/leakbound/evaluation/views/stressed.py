"""Models under stress, for page and console: what each stress leaks and adds, and the worst."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from leakbound.evaluation.statements.rows import LEAKAGE
from leakbound.evaluation.views.grids import (
    beyond_columns,
    label_cell,
    leakage_column,
    mean_heading,
)
from leakbound.evaluation.views.table import Cell, Table, interval, table_of
from leakbound.evaluation.views.view import ArmRows, AskedModel, ScorerView, View
from leakbound.stats import percent
from leakbound.store import ArmKey, Run
from leakbound.stress.dialogue import Dialogue
from leakbound.text.shown import DASH, below, many


def read_stressed(label: str, run: Run, key: ArmKey) -> Iterator[AskedModel]:
    """The arm with this key under no stress, and under each; nothing where it was put through none.

    `label`: what the model is called.
    """
    arms = [arm for arm in run.arms.values() if arm.key.stress and arm.key.unstressed == key]
    opened = {arm.key: {query.prefix for query in arm.spec.attack_queries} for arm in arms}
    for arm_key in (key, *opened) if arms else ():
        rows, words = ArmRows(str(arm_key), run.estimates), opened.get(arm_key, set())
        opener = f" “{next(iter(words))}”" if len(words) == 1 and "" not in words else ""
        counts = {label: run.arms[str(arm_key)].ledger}
        yield AskedModel(label=label, rows=rows, ledgers=counts, stress=f"{arm_key.stress}{opener}")


def stress_grid(view: View, scorer: ScorerView) -> Table:
    """A row a model and stress: what it leaks, how much is added, what is beyond a control."""

    def where(model: AskedModel) -> Cell:
        """At how many questions the stress adds, jointly."""
        rows = model.rows.estimates.matching(
            arm=model.rows.arm, scorer=scorer.name, quantity=LEAKAGE, beyond="unstressed",
            scope=("query", "question"),
        )  # fmt: skip
        more = sum(row.lower > 0 for row in rows)
        return Cell(f"{more} of {len(rows)}", more) if len(rows) else Cell(DASH)

    columns: dict[str, Callable[[AskedModel], Cell]] = {
        "Model": label_cell,
        "Under": lambda model: Cell(model.stress or "none"),
        mean_heading(scorer): leakage_column(scorer, scope="mean"),
        "Added": leakage_column(scorer, scope="mean", beyond="unstressed"),
        "Questions where it adds": where,
        "Worst question": leakage_column(scorer, scope="worst question"),
        **beyond_columns(scorer),
    }
    if not any(
        model.rows.leakage(scorer.name, scope="mean", beyond="control") for model in view.stressed
    ):
        columns = {name: column for name, column in columns.items() if "control" not in name}
    labels = dict.fromkeys(model.label for model in view.stressed)
    sure = percent(view.confidence)
    sentences = ((label, worst(view, label, scorer)) for label in labels)
    what = f"what is added holds for all stresses and questions of a model at once, {sure}"
    note = [
        f"{what}; other intervals hold each by itself",
        *(f"{label}: {words}" for label, words in sentences if words),
    ]
    questions = many(len(view.questions), "question")
    return table_of(
        f"Scorer {scorer.name}: under stress, {questions}", columns, view.stressed, "\n".join(note)
    )


def worst(view: View, label: str, scorer: ScorerView) -> str:
    """Say what a model leaks under the stress under which it leaks most; empty without any.

    And beyond the equally stressed control, where there is one.
    """
    models = [model for model in view.stressed if model.label == label]
    base = next((model for model in models if not model.stress), None)
    if base is None:
        return ""
    most = base.rows.leakage(scorer.name, scope="most-leaking stress")
    if most is None:
        return ""
    beyond = base.rows.leakage(scorer.name, scope="most-leaking stress", beyond="control")
    number = len(models) - 1
    turns = any(model.stress.partition(" ")[0] == Dialogue.name for model in models)
    most_of = (
        " (a conversation counts by the largest of its answers)" if turns and number > 1 else ""
    )
    sentence = (
        f"under the worst of {number} stress{'' if number == 1 else 'es'}{most_of}, the choice "
        f"counted: {mean_heading(scorer).lower()} {interval(most)}"
    )
    cut = dict.fromkeys(model.ledgers[model.label].within for model in models if model.stress)
    sentence += f",{' and'.join(filter(None, cut))}" if any(cut) else ""
    if beyond is None:
        return sentence
    return f"{sentence}; beyond its control put through the same, at least {below(beyond.lower)}"
