"""Details that open under a question: HTML, packed.

A page of hundreds of questions contains all of it, so the HTML is compressed and written in letters
and digits that nothing in a page can mistake for markup. `page.js` unpacks it.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterator

from leakbound.evaluation.views import words
from leakbound.evaluation.views.texts import excerpt, pieces
from leakbound.evaluation.views.view import Measured, ScorerView, Text
from leakbound.text.shown import between


def packed(html: str) -> str:
    """Pack HTML into letters and digits."""
    return base64.b64encode(zlib.compress(html.encode(), 9)).decode()


def unpacked(page: str) -> str:
    """Unpack the HTML of all questions from a page; empty where it has none."""
    match = re.search(r'<script type="text/plain" id="details">([^<]*)</script>', page)
    return zlib.decompress(base64.b64decode(match[1])).decode() if match else ""


def repeated(cell: Measured, scorer: ScorerView) -> Iterator[str]:
    """Yield the bounds on one question for every k and every x, in one sentence each."""
    said: dict[str, list[str]] = {"leak@k": [], "tail": []}
    for row in cell.rows.plain():
        if row.quantity in said and row.parameter is not None:
            name = "leak@{:,.0f}" if row.quantity == "leak@k" else "Pr[X > {:g}]"
            bounds = between(row.value, row.lower, row.upper)
            said[row.quantity].append(f"{name.format(row.parameter)} {bounds}")
    for parts in filter(None, said.values()):
        yield f"{scorer.name}: {', '.join(parts)}; all of these simultaneously"


def marked(leaking: re.Pattern[str] | None, text: Text) -> list[list[str]]:
    """Split a completion into its thought, if it is visible, and its answer, each into pieces.

    Every second piece matches `leaking`, the words that give the question's answer away.
    """
    if text.parts is None:
        return [pieces(leaking, words.clipped(text.text or ""))]
    thought = excerpt(leaking, text.parts[0], words.MOST_CHARACTERS)
    return [pieces(leaking, words.clipped(part)) for part in (thought, text.parts[1])]
