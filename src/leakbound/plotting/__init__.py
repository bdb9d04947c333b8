"""Charts: frozen rows made from views, and functions that draw them with matplotlib.

`rows` makes the rows of each kind of chart, and `charts` draws these rows and nothing else. The
report page embeds charts as SVG. `figures` writes charts to files, each with its rows as CSV.
"""

from __future__ import annotations

from leakbound.plotting.rows import KINDS
from leakbound.plotting.verb import FORMATS, WIDTHS, DrawnFigures, figures, figures_table

__all__ = ["FORMATS", "KINDS", "WIDTHS", "DrawnFigures", "figures", "figures_table"]
