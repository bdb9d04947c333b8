"""The details of all questions, packed; `page.js` unpacks them when a reader opens a question.

A page may have hundreds of questions, so their HTML is compressed. The compressed bytes are written
in base64, so that no browser mistakes them for markup.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterator, Mapping

from leakbound.presenting.sentences import MOST_CHARACTERS, clipped
from leakbound.presenting.table import interval
from leakbound.presenting.texts import Text, excerpt, pieces
from leakbound.presenting.view import ArmView
from leakbound.stats.about import Quantity
from leakbound.types import Scorer

REPEATED: Mapping[Quantity, str] = {"leak@k": "leak@{:,.0f}", "tail": "Pr[X > {:g}]"}


def packed(html: str) -> str:
    """Return HTML compressed, as text in base64."""
    return base64.b64encode(zlib.compress(html.encode(), 9)).decode()


def unpacked(page: str) -> str:
    """Return the unpacked HTML of all questions of a page, or "" if the page has none."""
    match = re.search(r'<script type="text/plain" id="details">([^<]*)</script>', page)
    return zlib.decompress(base64.b64decode(match[1])).decode() if match else ""


def repeated(model: ArmView, scorer: Scorer, question: str) -> Iterator[str]:
    """Yield a sentence with the bounds on leak@k for every k, then one on Pr[X > x] for every x."""
    for quantity, name in REPEATED.items():
        rows = model.by_parameter(scorer, question, quantity=quantity)
        if parts := [f"{name.format(at)} {interval(row)}" for at, row in rows.items()]:
            yield f"{scorer.name}: {', '.join(parts)}; all these bounds are valid simultaneously"


def marked(leaking: re.Pattern[str] | None, text: Text) -> list[list[str]]:
    """Return the pieces of a completion's thought, if it is visible, and of its answer.

    Every second piece matches `leaking`, the words that reveal the question's answer.
    """
    if text.parts is None:
        return [pieces(leaking, clipped(text.text or ""))]
    thought = excerpt(leaking, text.parts[0], MOST_CHARACTERS)
    return [pieces(leaking, clipped(part)) for part in (thought, text.parts[1])]
