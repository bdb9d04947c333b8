"""Draw the picture of the README from a finished demo: `python experiments/finding.py demo-run`.

Writes docs/finding.svg: NPO's greedy answers against its output distribution, and leak@k.
"""

from __future__ import annotations

import sys
from pathlib import Path

from leakbound.reporting.charts import HEIGHT, WIDTH

from leakbound.demo import LABELS, SCORER
from leakbound.evaluation.views.read import read_view
from leakbound.reporting import figures
from leakbound.store import Run, write_text

STYLE = """
text { font: 11.5px system-ui, sans-serif; fill: #52514e; } .title { font-weight: 650; fill: #111; }
.end { text-anchor: end; } .mid { text-anchor: middle; } .label { fill: #111; }
.grid { stroke: #e3e2dd; } .m0 { --c: #b3261e; --d: none; } .m1 { --c: #0b57a4; --d: 7 4; }
.m2 { --c: #0d6b4f; --d: 2 3; } .m3 { --c: #9a5b00; --d: 9 3 2 3; }
.bar { fill: var(--c); fill-opacity: .38; } .value { stroke: var(--c); stroke-width: 1.8; }
.beside { fill: #77756f; fill-opacity: .42; } .dot { fill: #111; stroke: #fff; stroke-width: .8; }
.band { display: none; } .line { fill: none; stroke: var(--c); stroke-width: 2.2; }
.line { stroke-dasharray: var(--d); }
"""


def main(demo: Path) -> None:
    folders = {"full": "full", "NPO": "npo", "NPO + entropy": "npo-entropy", "control": "control"}
    view = read_view({label: Run.open(demo / "runs" / folders[label]) for label in LABELS})
    scorer = next(s for s in view.scorers if s.name == SCORER)
    lane = figures.lane_of(view, view.models[LABELS.index("NPO")], scorer)
    greedy = figures.questions_figure(view, scorer, [lane], figures.STANDARD)
    repeated = figures.repeated_figures(view, scorer)[0]
    key = "".join(
        f'<g class="m{i}" transform="translate({WIDTH + 74 + offset} 34)">'
        f'<path class="line" d="M0 0H24"/><text x="30" y="4">{label}</text></g>'
        for i, (label, offset) in enumerate(zip(LABELS, (0, 70, 145, 275), strict=True))
    )
    panels = [
        ("After NPO: greedy (dots), P(leak) (bars), control (grey)", greedy.svg),
        ("What asking k times finds: leak@k, mean over the questions", repeated.svg),
    ]
    body = "".join(
        f'<text class="title" x="{20 + i * (WIDTH + 20)}" y="16">{title}</text>'
        f'<svg x="{i * (WIDTH + 20)}" y="44" width="{WIDTH}" height="{HEIGHT}">{svg}</svg>'
        for i, (title, svg) in enumerate(panels)
    )
    size = f'width="{2 * WIDTH + 40}" height="{HEIGHT + 50}"'
    box = f'viewBox="0 0 {2 * WIDTH + 40} {HEIGHT + 50}"'
    paper = '<rect width="100%" height="100%" fill="#fff"/>'
    write_text(
        Path("docs/finding.svg"),
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box} role="img">'
        f"<style>{STYLE}</style>{paper}{body}{key}</svg>\n",
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
