"""Tables of a console: those of a page, with the columns there is room for, and metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from leakbound import stats
from leakbound.evaluation.planning.metrics import by_chance, stored_metrics
from leakbound.evaluation.statements.claims import clean_questions
from leakbound.evaluation.views import asked, grids, stressed, words
from leakbound.evaluation.views.read import read_view
from leakbound.evaluation.views.remarks import alone, grid_sentences
from leakbound.evaluation.views.table import Table, number_cell
from leakbound.evaluation.views.view import ScorerView, View
from leakbound.store import Run
from leakbound.store.arm_key import Model
from leakbound.types import Scorer


def metrics_table(run: Run) -> Table | None:
    """The stored metrics, a row each and a column for every model; None where there are none."""
    stored = stored_metrics(run)
    if "arms" not in stored:
        return None
    models = stored["arms"]
    rows = (
        (name, *(number_cell(models[model]["metrics"][name]["value"]).text for model in models))
        for name in models["target"]["metrics"]
    )
    parts = stored["fingerprint"]["parts"]
    sizes = ", ".join(f"{part} {facts['prompts']:,}" for part, facts in parts.items())
    notes = [f"of {run.record.benchmark.name}, prompts: {sizes}"]
    lacking: dict[str, list[str]] = {}
    for name, why in stored["left_out"].items():
        lacking.setdefault(why, []).append(name)
    notes += [f"left out for want of {why}: {', '.join(names)}" for why, names in lacking.items()]
    notes += by_chance(models)
    if fluency := stored["fingerprint"].get("classifier"):
        notes.append(f"fluency: {fluency['model']}, of at most {fluency['tokens']} first tokens")
    return Table.plain("Metrics", ("metric", *models), rows, "\n".join(notes))


def metrics_of(run: Run, model: Model) -> Mapping[str, float]:
    """The stored metrics of one model of a run that have a value, by name; empty for none."""
    metrics = stored_metrics(run).get("arms", {}).get(model, {}).get("metrics", {})
    return {name: row["value"] for name, row in metrics.items() if row["value"] is not None}


def clean_table(run: Run, scorer: Scorer, limit: float, confidence: float) -> Table:
    """A row for each sampled arm of the target: how many questions are clean, and which are not."""
    rows = []
    for arm in run.arms.values():
        if arm.decoding.greedy or not arm.key.own_words or arm.key.is_control:
            continue
        query_ids, clean = clean_questions(arm, scorer, limit, confidence)
        doubtful = [q for q, holds in zip(query_ids, clean.holds, strict=True) if not holds]
        named = ", ".join(doubtful[:8]) + (", …" if len(doubtful) > 8 else "")
        rows.append((arm.name, f"{sum(clean.holds)} of {len(query_ids)}", named or "none"))
    return Table.plain(
        f"{scorer.name}: questions proved to leak at most {limit:g}",
        ("arm", "proved", "not proved"),
        rows,
        f"all proved ones hold at once, {stats.percent(confidence)} (Holm); not proved does not "
        "mean leaking",
    )


SHOWN = 10  # questions of those that were attacked


def summary(run: Run) -> list[Table]:
    """One table a scorer; a row for each model, with its greedy answers beside it.

    Where decodings form a grid, another with its cells; where rewritings were asked too, two that
    set those beside the questions alone, and one of what was asked; where worst-case inputs were
    searched, two of what was found. The metrics of the models come last.
    """
    tables: list[Table] = []
    if run.estimates:
        view = read_view(run)
        for scorer in view.scorers:
            tables += [_first(view, scorer), *_more(view, scorer)]
        if view.tried:
            tables.append(
                replace(asked.tried_grid(view), note="\n".join(map(alone, view.tried.values())))
            )
    metrics = metrics_table(run)
    return [*_said_once(tables), *([] if metrics is None else [metrics])]


def _said_once(tables: Iterable[Table]) -> Iterator[Table]:
    """The tables, without lines after one that stand after another before it."""
    seen: set[str] = set()
    for table in tables:
        lines = [line for line in table.note.splitlines() if line not in seen]
        seen.update(lines)
        yield replace(table, note="\n".join(lines))


def _first(view: View, scorer: ScorerView) -> Table:
    """The models, after them each in words; before them how far they leak beyond their control.

    And what departs from the benchmark's defaults, where models differ in it.

    A decoding that is the same for all stands in the title.
    """
    shown = grids.summary_grid(view, scorer).only(
        "Model",
        "Decoding",
        grids.greedy_heading(scorer),
        grids.mean_heading(scorer),
        "Worst question",
        f"leak@{grids.typical_k(view, scorer)}",
        "Deviation, worst",
        "ED, mean",
    )
    excess = [
        f"{model.subject}, {words.excess(model, scorer)}" for model in view.models if model.control
    ]
    first = excess or [words.without_control(view)]
    beside = ((model.label, words.beside(model, scorer)) for model in view.models)
    first += [f"{label}, {more}" for label, more in beside if more]
    alike = len({model.departures for model in (*view.models, *view.unsampled)}) == 1
    sentences = [
        f"{model.label if model.control else model.subject}: {words.by_itself(view, model, scorer)}"
        for model in view.models
    ]
    decodings = {model.decoding.name for model in (*view.models, *view.unsampled)}
    if len(decodings) == 1:
        others = (column for column in shown.columns if column != "Decoding")
        shown = replace(shown.only(*others), title=f"{shown.title}, {decodings.pop()}")
    return replace(
        shown,
        lead="\n".join(filter(None, [*first, *([] if alike else words.departing(view))])),
        note="\n".join([*sentences, shown.note]),
    )


def _more(view: View, scorer: ScorerView) -> list[Table]:
    readings = grids.readings_grid(view, scorer)
    tables = [] if readings is None else [readings]
    for grid in (grid for _, grid in view.grids if grid.scorer == scorer.name):
        columns = ("Decoding", "Mean over the questions", f"leak@{grid.k}")
        cells = grids.decodings_grid(grid).only(*columns)
        tables.append(replace(cells, note="\n".join(grid_sentences(grid))))
    if view.asked:
        table = asked.protocols_grid(view, scorer)
        tables.append(table.only(*(name for name in table.columns if name not in grids.BEYOND)))
        tables.append(asked.gaps_grid(view, scorer))
    if view.stressed:
        tables.append(stressed.stress_grid(view, scorer))
    if view.attacked:
        table = asked.attacked_grid(view, scorer)
        tables.append(table.only(*(name for name in table.columns if name not in grids.BEYOND)))
    if view.found:
        table = asked.found_grid(view, scorer).only(
            "Question",
            "In its own words",
            "Found",
            asked.PROVED,
            "Control",
            asked.CONTROL_PROVED,
            "Lower end in the search",
            "Asked",
        )
        more = f", the {SHOWN} that leak most" if len(table.rows) > SHOWN else ""
        tables.append(replace(table, title=f"{table.title}{more}", rows=table.rows[:SHOWN]))
    return tables
