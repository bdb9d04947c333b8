"""What words in the headings of a table mean, for who meets them there."""

from __future__ import annotations

import re
from collections.abc import Iterable

TERMS = {
    r"leak@\d": "leak@k: the expected score of the worst of k answers, what someone finds who asks "
    "k times.",
    r"\bED\b": "ED, the expectation deviation: the mean plus two standard deviations, which may "
    "exceed 1 where no score does.",
}
"""By what marks a heading that uses them."""


def terms_of(headings: Iterable[str]) -> list[str]:
    """The meanings of those that these headings use."""
    used = "\n".join(headings)
    return [meaning for mark, meaning in TERMS.items() if re.search(mark, used)]
