"""Make texts from models and files safe to display, and format numbers and objects.

Escapes replace characters that would control a terminal or a page, and HTML is escaped. Bounds are
rounded outwards, so the displayed bounds are valid.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from sys import float_info

from markupsafe import Markup

# Control characters except tab and line feed; marks that change the direction of the text after
# them; line breaks that only some programs recognise.
_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
DASH = "–"
_FEW = 3  # entries that a message shows
_TINY = Decimal("1e-4")  # smaller figures are written with an exponent
_KEPT = 12  # digits; further digits are rounding errors
_BETWEEN = re.compile(r"(?<=,) (?=[^\[\],]*\])|(?<=[≤≥]) (?=\S)|(?<=\d) (?=%)")


def some(values: Sequence[object]) -> str:
    """Return the first few values as text, with the number of remaining values."""
    first = ", ".join(repr(value) for value in values[:_FEW])
    return first if len(values) <= _FEW else f"{first} and {len(values) - _FEW:,} more"


def kind_of(value: object) -> str:
    """Return a number as text, and the JSON type of any other value, without quoting its text."""
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    names = {"str": "text", "dict": "JSON object"}
    name = type(value).__name__
    return f"a {names.get(name, name)}"


def visible(text: str) -> str:
    """Return the text with control characters replaced by escapes, such as `\\u001b`.

    A JSON text with these escapes has the same value.
    """
    return _STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class Displayed:
    """A value that shells and notebooks display as a heading above the rows of a table."""

    __slots__ = ()

    def _shown(self) -> Iterable[Sequence[str]]:
        """Yield the heading as a row, then the rows of the table."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return visible("\n".join("  ".join(row) for row in self._shown()))

    def _repr_html_(self) -> str:
        (heading,), *rows = self._shown()
        table = Markup("").join(
            Markup("<tr>{}</tr>").format(
                Markup("").join(_CELL.format(visible(cell)) for cell in row)
            )
            for row in rows
        )
        whole = Markup("<div><strong>{}</strong><table>{}</table></div>")
        return str(whole.format(visible(heading), table))


_CELL = Markup('<td style="text-align: left; padding-right: 1em">{}</td>')


def number(value: float | None, towards: int = 0, digits: int = 2) -> str:
    """Return a number as text for tables, sentences and charts (see `rounded`); a dash for None."""
    if value is None or math.isnan(value):
        return DASH
    short = rounded(value, towards, digits)
    if not towards and 1 - _TINY < abs(short) < 1:  # the nines of an estimate are not significant
        return f">{1 - _TINY}" if short > 0 else f"<−{1 - _TINY}"
    if 0 < abs(short) < _TINY:
        text = f"{short.scaleb(-short.adjusted()):.{digits - 1}f}e{short.adjusted()}"
    else:
        text = f"{short:f}"
    return text.replace("-", "−")


def rounded(value: float, towards: int = 0, digits: int = 2) -> Decimal:
    """Round a value so that its distance to the nearer of 0 and 1 has `digits` significant digits.

    The value is rounded to the nearest number (`towards` 0), down (-1) or up (1). Only 0 becomes 0,
    and only 1 becomes 1. A value above 1 is rounded to as many decimals as 1/2.
    """
    exact = Decimal(repr(float(value)))
    if not exact.is_finite() or abs(exact) in (0, 1):
        return exact.to_integral_value() + 0  # no -0

    def to(places: int, rounding: str) -> Decimal:
        return exact.quantize(Decimal((0, (1,), _place(exact) - places)), rounding)

    exact = to(max(_KEPT, digits), ROUND_HALF_EVEN)  # removes the rounding error of 1 - .93
    exact = to(digits, {-1: ROUND_FLOOR, 0: ROUND_HALF_EVEN, 1: ROUND_CEILING}[towards])
    return to(digits, ROUND_HALF_EVEN)  # .0996 is .10, not .100


def share(part: float) -> str:
    """Return a fraction in per cent; only 0 becomes 0 %, and only 1 becomes 100 %."""
    if 0 < part < 0.0005:
        return "<0.1 %"
    if 0.9995 <= part < 1:
        return ">99.9 %"
    return f"{100 * part:.1f} %"


def many(count: int, noun: str) -> str:
    """Return a count with its noun, such as "1 draw" or "1,024 draws"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def below(value: float) -> str:
    """Return a lower bound as text, rounded down; ">0" for the smallest positive number."""
    return ">0" if 0 < value <= float_info.min else number(value, -1)


def above(value: float) -> str:
    """Return an upper bound as text, rounded up."""
    return number(value, 1)


def between(value: float | None, lower: float, upper: float) -> str:
    """Return a number with its bounds as text; a number outside the bounds is clipped to them.

    The estimate of leak@k may be outside its bounds.
    """
    shown = value if value is None else min(max(value, lower), upper)
    return f"{number(shown)} [{below(lower)}, {above(upper)}]"


def tied(text: str, tie: str = "\N{NO-BREAK SPACE}") -> str:
    """Return a text with no line breaks inside numbers such as [0.1, 0.2], 99 % and ≤ 0.1."""
    return _BETWEEN.sub(tie, text)


def _place(exact: Decimal) -> int:
    """Return the decimal place before the first digit of the distance to the nearer of 0 and 1."""
    size = abs(exact)
    return min(size, 1 - size).adjusted() + 1 if 0 < size < 1 else 0
