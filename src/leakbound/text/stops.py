"""Find stop strings that cut a reference answer or a keyword."""

from __future__ import annotations

import re
from collections.abc import Sequence

from leakbound.types import Decoding, Prompt


def stops_inside(prompts: Sequence[Prompt], *decodings: Decoding) -> dict[str, list[str]]:
    """Return, for each stop string, the ids of the prompts whose answer or keyword it cuts."""
    stops = dict.fromkeys(stop for how in decodings for stop in how.stop)
    return {
        stop: ids
        for stop in stops
        if (ids := [p.id for p in prompts if any(_cuts(stop, t) for t in (p.answer, *p.keywords))])
    }


def _cuts(stop: str, text: str | None) -> bool:
    """Return whether outputs that end before a stop string may lack a part of a text.

    They may lack a part in three cases: the text contains the stop string, the stop string contains
    the text, or they overlap, which means that one ends with the beginning of the other. Within the
    stop string, the text must begin and end at word boundaries. Upper and lower case are not
    distinguished. Blanks and punctuation at the end of the text are ignored.
    """
    stop, text = stop.casefold(), (text or "").casefold().rstrip()
    if stop in text:
        return has_word(text[text.index(stop) :])
    places = [(r"(?<!\w){}(?!\w)", text)]
    for k in range(1, min(len(stop), len(text))):
        places += [(r"\A{}(?!\w)", text[-k:]), (r"(?<!\w){}\Z", text[:k])]
    return any(has_word(own) and re.search(at.format(re.escape(own)), stop) for at, own in places)


def has_word(text: str) -> bool:
    """Return whether a text has a letter or a digit."""
    return any(map(str.isalnum, text))
