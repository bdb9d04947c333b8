"""Make SVG for pages, without styles, scripts and addresses; `charts.css` sets its colours.

Colours are also attributes of the SVG. So a chart that is saved without the style sheet has the
colours of a printed chart.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from leakbound.plotting.canvas import Canvas, settings
from leakbound.plotting.charts import PAINT
from leakbound.plotting.material import Chart, ChartRow
from leakbound.plotting.style import WHITE, Stroke

_SVG = "http://www.w3.org/2000/svg"
_LINK = "{http://www.w3.org/1999/xlink}href"
_LONG = re.compile(r"-?\d+\.\d+")
_PLACES = {"d", "x", "y", "transform"}
_DROPPED = {"style", "clip-path", "font-family", "stroke-linejoin", "stroke-linecap"}


def inline(
    chart: Chart,
    rows: Sequence[ChartRow],
    pens: Mapping[str, Stroke],
    size: tuple[float, float],
    title: str,
) -> str:
    """Return a chart as an `svg` element.

    Args:
        chart: the kind of chart.
        rows: the rows to draw.
        pens: the pen of each model.
        size: the width in inches, which a page scales, and the factor of the panels' heights.
        title: the accessible name of the chart; its accessible description is `chart.shows`.
    """
    with settings():
        canvas = Canvas(size[0], pens, size[1])
        PAINT[chart.name](rows, canvas)
        canvas.finish()
        svg = canvas.bytes("svg")
    name = f"c{hashlib.sha256(title.encode() + svg).hexdigest()[:8]}"  # unique on a page
    root = ElementTree.fromstring(svg)
    _, _, across, down = map(float, root.attrib["viewBox"].split())
    made = Element("svg", {"xmlns": _SVG, "class": "chart", "role": "img"})
    made.set("viewBox", f"0 0 {across:.0f} {down:.0f}")
    for tag, text in (("title", title), ("desc", f"{chart.shows}.")):
        ElementTree.SubElement(made, tag).text = text
    for node in root:
        _copy(node, made, name)
    return ElementTree.tostring(made, encoding="unicode")


def _copy(node: Element, into: Element, name: str) -> None:
    """Copy the visible parts of a node into another node; replace groups with their children."""
    tag = node.tag.removeprefix(f"{{{_SVG}}}")
    style = dict(pair.split(": ", 1) for pair in node.get("style", "").split("; ") if pair)
    if tag in ("metadata", "style", "clipPath") or style.get("fill") == WHITE:
        return  # no axis clips its content, and the page has its own background
    if tag == "defs":
        into = ElementTree.SubElement(into, tag) if any(child.get("id") for child in node) else into
    elif tag != "g":
        own = {key: value for key, value in (node.attrib | style).items() if key not in _DROPPED}
        if link := own.pop(_LINK, None):
            own["href"] = f"#{name}{link[1:]}"
        if "id" in own:  # a mark takes the colour of each place that uses it
            own = {"id": f"{name}{own['id']}", "d": own["d"]}
        if own.get("transform", "").startswith("rotate(-0"):
            del own["transform"]
        for key in _PLACES & own.keys():
            own[key] = " ".join(
                _LONG.sub(lambda match: f"{round(float(match[0]), 1):g}", own[key]).split()
            )
        into = ElementTree.SubElement(into, tag, own)
        into.text = node.text if tag == "text" else None
    for child in node:
        _copy(child, into, name)
