"""Texts of others as a person reads them, elements of a page, and what an object shows of itself.

What would steer a terminal or a page is spelled, and what a page shows is escaped. Numbers are
rounded so that they never say more than was shown.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from markupsafe import Markup

# Controls but for tab and line feed; marks that turn the direction of what follows; line ends that
# only some programs know.
_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
_COMPUTED = tuple("=+-@\t\r")
DASH = "–"
_DIGITS = 3
_BETWEEN = re.compile(r"(?<=,) (?=[^\[\],]*\])|(?<=[≤≥]) (?=\S)|(?<=\d) (?=%)")


def visible(text: str) -> str:
    """The text with each character that steers, an escape sequence's first say, as `\\u001b`.

    So spelled, JSON says the same as before.
    """
    return _STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def as_cell(value: Any) -> Any:
    """A value for a cell of a CSV file: a text that a spreadsheet would compute gets an apostrophe.

    Those are texts that begin with =, +, -, @, a tab or a carriage return (OWASP, "CSV injection").
    """
    return f"'{value}" if isinstance(value, str) and value[:1] in _COMPUTED else value


def tag(name: str, *children: str, **attributes: object) -> Markup:
    """An element; text and attributes are escaped, elements among the children are not."""
    written = Markup("").join(
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), value)
        for key, value in attributes.items()
    )
    if not children:
        return Markup("<{}{}/>").format(name, written)
    return Markup("<{0}{1}>{2}</{0}>").format(name, written, Markup("").join(children))


def as_lines(heading: str, rows: Iterable[Sequence[str]]) -> str:
    """The heading, and a line a row."""
    return visible("\n".join([heading, *("  ".join(row) for row in rows)]))


def as_html(heading: str, rows: Iterable[Sequence[str]]) -> str:
    """The heading above a table, every text escaped."""
    lines = (tag("tr", *(tag("td", visible(cell), style=_CELL) for cell in row)) for row in rows)
    return str(tag("div", tag("strong", visible(heading)), tag("table", *lines)))


_CELL = "text-align: left; padding-right: 1em"


def number(value: float | None) -> str:
    """Three decimals; a small value is never written as 0, nor one near 1 as 1."""
    if value is None:
        return DASH
    step = 10.0**-_DIGITS
    if 0 < abs(value) < step / 2:
        return f"{'<' if value > 0 else '>−'}{step:.{_DIGITS}f}"
    if 1 - step / 2 < value < 1:
        return f">{1 - step:.{_DIGITS}f}"
    return f"{value:.{_DIGITS}f}".replace("-", "−")


def share(part: float) -> str:
    """A share of a whole in per cent: a small one is never 0 %, nor one below 1 100 %."""
    if 0 < part < 0.0005:
        return "<0.1 %"
    if 0.9995 <= part < 1:
        return ">99.9 %"
    return f"{100 * part:.1f} %"


def many(count: int, noun: str) -> str:
    """A number with its noun: 1 draw, 1,024 draws."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def below(value: float) -> str:
    """A lower end, rounded down."""
    return _outward(math.floor(value * 10**_DIGITS + 1e-9))


def above(value: float) -> str:
    """An upper end, rounded up."""
    return _outward(math.ceil(value * 10**_DIGITS - 1e-9))


def tied(text: str, tie: str = "\N{NO-BREAK SPACE}") -> str:
    """Figures between whose parts no line breaks: the ends of an interval, 99 %, ≤ 0.1."""
    return _BETWEEN.sub(tie, text)


def _outward(thousandths: int) -> str:
    return f"{thousandths / 10**_DIGITS:.{_DIGITS}f}".replace("-", "−")
