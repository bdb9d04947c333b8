"""Texts of others where a person reads them: what would steer a terminal or a page is spelled."""

from __future__ import annotations

import re
from typing import Any

# Controls but for tab and line feed; marks that turn the direction of what follows; line ends that
# only some programs know.
_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
_COMPUTED = tuple("=+-@\t\r")


def visible(text: str) -> str:
    """The text with each character that steers, an escape sequence's first say, as `\\u001b`.

    So spelled, JSON says the same as before.
    """
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def as_cell(value: Any) -> Any:
    """A value for a cell of a CSV file: a text that a spreadsheet would compute gets an apostrophe.

    Those are texts that begin with =, +, -, @, a tab or a carriage return (OWASP, "CSV injection").
    """
    return f"'{value}" if isinstance(value, str) and value[:1] in _COMPUTED else value
