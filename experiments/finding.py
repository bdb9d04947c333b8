"""Draw the picture of the README from a finished demo: `python experiments/finding.py demo-run`.

Writes docs/finding.svg: NPO's greedy answers against its output distribution, and leak@k.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from leakbound.demo import FOLDERS, SCORER
from leakbound.presenting.view import read_view
from leakbound.reporting.figures import figures_of
from leakbound.reporting.page import asset
from leakbound.store import Run, write_text

WIDTH, HEIGHT = 420, 290  # of a panel


def main(demo: Path) -> None:
    view = read_view({label: Run.open(demo / "runs" / name) for label, name in FOLDERS.items()})
    scorer = next(s for s in view.scorers if s.name == SCORER)
    models = tuple(model for model in view.models if model.label in ("NPO", "control"))
    panels = [
        ("After NPO", *figures_of(replace(view, models=models), "questions", "", scorer)),
        ("k answers per question", *figures_of(view, "naive", "", scorer)),
    ]
    body = "".join(
        f'<text class="title" x="{20 + i * (WIDTH + 20)}" y="18">{title}</text>'
        f'<svg x="{i * (WIDTH + 20)}" y="26" width="{WIDTH}" height="{HEIGHT}">{chart.svg}</svg>'
        for i, (title, chart) in enumerate(panels)
    )
    style = f"{asset('charts.css')} .title {{ font: 650 13px sans-serif; fill: var(--ink); }}"
    box = f'viewBox="0 0 {2 * WIDTH + 40} {HEIGHT + 40}"'
    paper = '<rect width="100%" height="100%" style="fill: var(--card)"/>'
    write_text(
        Path("docs/finding.svg"),
        f'<svg xmlns="http://www.w3.org/2000/svg" {box} role="img">'
        f"<style>{style}</style>{paper}{body}</svg>\n",
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
