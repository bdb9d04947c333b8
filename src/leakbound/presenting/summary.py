"""The tables that a console shows: tables of a page with fewer columns, and tables of metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from leakbound import stats
from leakbound.bounding.claims import clean_questions
from leakbound.planning.metrics import by_chance, stored_metrics
from leakbound.presenting import sentences, tables
from leakbound.presenting.questions import SEARCHED_COLUMNS, searched_table
from leakbound.presenting.table import Table
from leakbound.presenting.view import View, read_view
from leakbound.store import Run
from leakbound.store.arm_key import Model
from leakbound.types import Scorer


def metrics_table(run: Run) -> Table | None:
    """Return the stored metrics, a row per metric and a column per model; None without metrics."""
    stored = stored_metrics(run)
    if "arms" not in stored:
        return None
    models = stored["arms"]
    rows = (
        (name, *(models[model]["metrics"][name]["value"] for model in models))
        for name in models["target"]["metrics"]
    )
    parts = stored["fingerprint"]["parts"]
    sizes = ", ".join(f"{part} {facts['prompts']:,}" for part, facts in parts.items())
    notes = [f"prompts in each part of the benchmark “{run.record.benchmark.name}”: {sizes}"]
    lacking: dict[str, list[str]] = {}
    for name, why in stored["left_out"].items():
        lacking.setdefault(why, []).append(name)
    notes += [f"not computed without {why}: {', '.join(names)}" for why, names in lacking.items()]
    notes += by_chance(models)
    if fluency := stored["fingerprint"].get("classifier"):
        notes.append(f"fluency by {fluency['model']}, from the first {fluency['tokens']} tokens")
    return Table.plain("Metrics", ("metric", *models), rows, "\n".join(notes))


def metrics_of(run: Run, model: Model) -> Mapping[str, float]:
    """Return the known values of the stored metrics of one model of a run, by metric."""
    metrics = stored_metrics(run).get("arms", {}).get(model, {}).get("metrics", {})
    return {name: row["value"] for name, row in metrics.items() if row["value"] is not None}


def clean_table(run: Run, scorer: Scorer, limit: float, confidence: float) -> Table:
    """Return a row per sampled target arm: the number of clean questions, and the other ids.

    A question is clean if a proof shows that its leakage is at most `limit`.
    """
    rows = []
    for arm in run.arms.values():
        if arm.decoding.greedy or not arm.key.own_words or arm.key.is_control:
            continue
        query_ids, clean = clean_questions(arm, scorer, limit, confidence)
        doubtful = [q for q, clear in zip(query_ids, clean.holds, strict=True) if not clear]
        named = ", ".join(doubtful[:8]) + (", …" if len(doubtful) > 8 else "")
        rows.append((arm.name, f"{sum(clean.holds)} of {len(query_ids)}", named or "none"))
    return Table.plain(
        f"Scorer {scorer.name}: questions proved to leak at most {limit:g}",
        ("arm", "proved", "not proved"),
        rows,
        f"all proofs are valid simultaneously at {stats.percent(confidence)} confidence (Holm's "
        "method); a question without a proof does not necessarily leak more",
    )


SHOWN = 10  # number of questions in the table of searched queries


def summary(run: Run) -> list[Table]:
    """Return the console tables of a run: the tables of each scorer, rewritings, and metrics.

    A line of a note that several tables share is shown only below the first of these tables.
    """
    shown: list[Table] = []
    if run.estimates:
        view = read_view(run)
        shown += [table for scorer in view.scorers for table in _of_scorer(view, scorer)]
        if view.tried:
            note = "\n".join(map(sentences.without_rewriting, view.tried.values()))
            shown.append(replace(tables.tried_table(view), note=note))
    seen: set[str] = set()
    for i, table in enumerate(shown):
        lines = [line for line in table.note.splitlines() if line not in seen]
        seen.update(lines)
        shown[i] = replace(table, note="\n".join(lines))
    return [*shown, *filter(None, [metrics_table(run)])]


def _of_scorer(view: View, scorer: Scorer) -> Iterator[Table]:
    table = tables.painted(tables.SUMMARY, view, scorer, console=True)
    decodings = {model.arm.decoding.name for model in view.every}
    if len(decodings) == 1:  # the title names the decoding that all share
        others = (column for column in table.columns if column != "Decoding")
        table = replace(table.only(*others), title=f"{table.title}, {decodings.pop()}")
    yield replace(table, lead=sentences.lead(view, scorer))
    if readings := tables.readings_table(view, scorer):
        yield readings
    for grid in view.grids:
        if grid.scorer == scorer.name:
            cells = tables.decodings_table(grid)
            cells = cells.only("Decoding", "Mean over the questions", f"leak@{grid.k}")
            yield replace(cells, note="\n".join(sentences.of_grid(grid)))
    for spec in (tables.PROTOCOLS, tables.GAPS, tables.STRESS, tables.ATTACKED):
        if getattr(view, spec.arms):
            yield tables.painted(spec, view, scorer, console=True)
    if view.attacks:
        table = searched_table(view, scorer).only(*SEARCHED_COLUMNS)
        more = f", the {SHOWN} that leak most" if len(table.rows) > SHOWN else ""
        yield replace(table, title=f"{table.title}{more}", rows=table.rows[:SHOWN])
