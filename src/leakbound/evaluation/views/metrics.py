"""Utility and memorisation as a table."""

from __future__ import annotations

from collections.abc import Mapping

from leakbound.evaluation.planning.metrics import by_chance, stored_metrics
from leakbound.evaluation.views.table import Table
from leakbound.store import Run
from leakbound.store.arm_key import Model
from leakbound.text.figures import DASH, number


def metrics_table(run: Run) -> Table | None:
    """The stored metrics, a row each and a column for every model; None where there are none."""
    stored = stored_metrics(run)
    if "arms" not in stored:
        return None
    models = stored["arms"]
    rows = (
        (name, *(_figure(models[model]["metrics"][name]["value"]) for model in models))
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
    if asked := stored["fingerprint"].get("classifier"):
        notes.append(f"fluency: {asked['model']}, of at most {asked['tokens']} first tokens")
    return Table.plain("Metrics", ("metric", *models), rows, "\n".join(notes))


def metrics_of(run: Run, model: Model) -> Mapping[str, float]:
    """The stored metrics of one model of a run that have a value, by name; empty for none."""
    found = stored_metrics(run).get("arms", {}).get(model, {}).get("metrics", {})
    return {name: row["value"] for name, row in found.items() if row["value"] is not None}


def _figure(value: float | None) -> str:
    """A p-value of 1e-22 is not the same as one of 1e-4, so small ones are told by magnitude."""
    if value is None:
        return DASH
    return f"{value:.1e}" if 0 < abs(value) < 5e-4 else number(value)
