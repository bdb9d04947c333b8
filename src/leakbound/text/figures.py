"""Numbers as text, rounded so that they never say more than was shown."""

from __future__ import annotations

import math
import re

DASH = "–"
_DIGITS = 3
_BETWEEN = re.compile(r"(?<=,) (?=[^\[\],]*\])|(?<=[≤≥]) (?=\S)|(?<=\d) (?=%)")


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
