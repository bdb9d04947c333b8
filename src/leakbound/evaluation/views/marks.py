"""Which words of a text leak: keywords, or what the answer says beyond its question."""

from __future__ import annotations

import re

from leakbound.evaluation.views.view import Question
from leakbound.text.keywords import answer_keywords


def leaking_words(question: Question) -> re.Pattern[str] | None:
    """What finds the words that give a question's answer away; None where none are known.

    They are its keywords, or else the words of its answer that say something and that the question
    does not hold. They are to be seen in a text; what a text scores is its scorer's to say.
    """
    words = question.keywords or answer_keywords(question.text, question.answer or "")
    parts = [re.sub(r"\s+", r"\\s+", re.escape(w.strip()).replace(r"\ ", " ")) for w in words]
    known = sorted(filter(None, parts), key=len, reverse=True)  # the longest that fits is marked
    return re.compile(rf"(?<!\w)(?:{'|'.join(known)})(?!\w)", re.IGNORECASE) if known else None


def pieces(pattern: re.Pattern[str] | None, text: str) -> list[str]:
    """The text in pieces, every second of which leaks; together they are the text.

    Words that leak and stand side by side are one piece.
    """
    found = [""]
    end = 0
    for match in pattern.finditer(text) if pattern else ():
        between, end = text[end : match.start()], match.end()
        if len(found) > 1 and between.isspace():
            found[-2] += between + match[0]
        else:
            found[-1] += between
            found += [match[0], ""]
    found[-1] += text[end:]
    return found
