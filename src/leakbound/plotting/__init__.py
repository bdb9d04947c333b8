"""The papers' figures of finished runs: typed rows from views, drawn and written beside their CSV.

Every figure is a `PaperFigure`: what it needs, the function that makes its rows, and the one that
draws these and nothing else.
"""

from __future__ import annotations

from leakbound.plotting.verb import FORMATS, KINDS, WIDTHS, DrawnFigures, figures, figures_table

__all__ = ["FORMATS", "KINDS", "WIDTHS", "DrawnFigures", "figures", "figures_table"]
