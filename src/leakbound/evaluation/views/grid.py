"""A grid of decodings: its cells, and in words which knob moves leakage more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from leakbound import stats
from leakbound.evaluation.statements.grid import KNOBS, Setting, axes_of, setting_of
from leakbound.evaluation.statements.rows import LEAKAGE
from leakbound.evaluation.views.table import interval
from leakbound.store import EstimateRow, Estimates, Run


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingGrid:
    """One scorer's means over the questions under every pair of temperature and top-p.

    `leakage` holds for all cells jointly, and so does `leak_at_k`, which is empty where some
    cell's n was not fixed. `effects` are root mean squares by knob, and of both together; empty
    where a knob has one setting only. `most`: the name of the decoding that leaks most, with a
    lower end that has paid for picking it.
    """

    scorer: str
    temperatures: tuple[float, ...]
    top_ps: tuple[float, ...]
    leakage: Mapping[Setting, EstimateRow]
    leak_at_k: Mapping[Setting, EstimateRow]
    k: int | None
    effects: Mapping[str, EstimateRow]
    most: tuple[str, EstimateRow]
    confidence: float


def grid_sentences(grid: DecodingGrid) -> list[str]:
    """Which decoding leaks most, and which knob moves leakage more, or that it cannot be told."""
    decoding, bound = grid.most
    holds = f"{stats.percent(grid.confidence)} jointly"
    said = [f"seen to leak most: {decoding}, {interval(bound)}; cells hold at {holds}"]
    if grid.effects:
        said.append(_comparison(grid.effects, f"root mean square, {holds}"))
    return said


def read_grid(run: Run, rows: Estimates) -> DecodingGrid | None:
    """What one scorer's estimates say of a run's decodings; None unless they form a whole grid."""
    arms = run.arms
    cells = rows.where(scope="mean", jointly=True)
    axes = axes_of([arms[name].decoding for name in dict.fromkeys(row.arm for row in cells)])
    most = rows.first(scope="most-leaking decoding")
    if axes is None or most is None:
        return None

    def by_setting(cells: Iterable[EstimateRow]) -> dict[Setting, EstimateRow]:
        return {setting_of(arms[row.arm].decoding): row for row in cells}

    repeated = cells.where(quantity="leak@k")
    return DecodingGrid(
        scorer=most.scorer,
        temperatures=axes[0],
        top_ps=axes[1],
        leakage=by_setting(cells.where(quantity=LEAKAGE)),
        leak_at_k=by_setting(repeated),
        k=next((int(row.parameter) for row in repeated if row.parameter), None),
        effects={str(row.about.knob): row for row in rows.where(quantity="effect")},
        most=(arms[most.arm].decoding.name, most),
        confidence=most.confidence,
    )


def _comparison(effects: Mapping[str, EstimateRow], how: str) -> str:
    less, more = sorted(KNOBS, key=lambda knob: effects[knob].lower)
    if effects[more].lower > effects[less].upper:
        return (
            f"{more} moves leakage more than {less}: {interval(effects[more])} against "
            f"{interval(effects[less])} ({how})"
        )
    both = ", ".join(f"{knob} {interval(effects[knob])}" for knob in KNOBS)
    return f"which of {KNOBS[0]} and {KNOBS[1]} moves leakage more cannot be told: {both} ({how})"
