"""One picture of a run: what greedy answers show, and what the distribution leaks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from leakbound.errors import InputError
from leakbound.evaluation.views.read import read_view
from leakbound.reporting.figures import WIDE, first_figures
from leakbound.reporting.page import asset
from leakbound.store import Run, write_text
from leakbound.text.shown import tag

_CAPTION, _GAP = 26, 12  # above a chart, and between two


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that a notebook shows, and `save` writes.

    Attributes:
        svg: the whole picture; it stands alone, in light and dark.
    """

    svg: str

    def save(self, path: str | Path) -> Path:
        """Write it to this file, whole or not at all."""
        write_text(Path(path), self.svg)
        return Path(path)

    def _repr_svg_(self) -> str:
        return self.svg


def picture(runs: Run | Mapping[str, Run], *, scorer: str | None = None) -> Picture:
    """Draw every question's greedy score against the bounds on what the model leaks of it.

    One column is one question, sorted by what it leaks; the dot is the greedy answer's score, the
    bar holds the leakage, and the wider grey bar behind it that of the control. All models are on
    one axis; those that it hides are drawn once more on an axis of their own.

    Args:
        runs: a run with estimates, or several by the labels to give them; see `write_report`.
        scorer: by whose scores (None: the first).

    Raises what `write_report` does, and InputError for a scorer that the runs do not have.
    """
    named = {runs.path.name: runs} if isinstance(runs, Run) else runs
    view = read_view(named)
    known = {each.name: each for each in view.scorers}
    if scorer is not None and scorer not in known:
        raise InputError(
            f"`scorer` must be one that the runs were bounded by, {', '.join(known)}, got "
            f"{scorer!r}. Score and bound them by it first."
        )
    chosen = view.scorers[0] if scorer is None else known[scorer]
    step, height = WIDE.height + _CAPTION + _GAP, 0
    charts = []
    for i, shown in enumerate(first_figures(view, chosen, WIDE)):
        caption = tag("text", shown.caption, x=8, y=i * step + 18, class_="label")
        charts.append(tag("g", caption, class_=shown.style))
        charts.append(
            tag("svg", shown.svg, x=0, y=i * step + _CAPTION, width=WIDE.width, height=WIDE.height)
        )
        height = (i + 1) * step
    style = tag("style", Markup(asset("charts.css")))  # a file of this package, not data
    paper = tag("rect", width="100%", height="100%", style="fill: var(--card)")
    return Picture(
        tag(
            "svg",
            style,
            paper,
            *charts,
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {WIDE.width} {height}",
            width=WIDE.width,
            height=height,
            role="img",
        )
        + "\n"
    )
