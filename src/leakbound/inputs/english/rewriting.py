"""The same question in other forms, by rule: no model, no chance, every word of it kept.

A frame puts the question, or a part that `questions` takes out of it, into another sentence; a
turn puts the question itself into another order. A form whose pattern the question does not
surely match is left out. Names, numbers and titles stay as they are written.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from leakbound.inputs.english.facts import is_english
from leakbound.inputs.english.questions import (
    FRAMES,
    SUBJECT_VERBS,
    body_of,
    indirect,
    is_question,
    listed,
    masked,
    one_clause,
    opening,
    split_wh,
    task,
    wanted,
)

Part = Callable[[str], str | None]

_EITHER = listed("either determiner")
_AUTHORED = {
    "authored": "authored",
    "created": "created",
    "painted": "painted",
    "penned": "penned",
    "wrote": "written",
}
_WORK = r"(?:Title$|the (?:[\w-]+ )*?(?:book|collection|epic|novel|play|poem|series|story)\b)"


def rewritings(question: str, seed: int = 0) -> list[str]:
    """Every form the question has, each once, itself left out, in an order drawn by `seed`.

    The same question and seed give the same list. Empty for a text that is neither a question
    nor a request, and for one in another language, which no English sentence is put around.
    """
    whole = question.strip()
    if not is_english(whole):
        return []
    texts = [
        frame.format(part)
        for take, frames in PARTS
        if (part := take(whole))
        for frame in FRAMES[frames]
    ]
    texts += [text for turn in TURNS if (text := turn(whole))]
    distinct = [text for text in dict.fromkeys(texts) if text != whole]
    random.Random(f"rewritings {seed} {whole}").shuffle(distinct)
    return distinct


def _question(text: str) -> str | None:
    return text if is_question(text) else None


def other_determiner(text: str) -> str | None:
    """`Which genre ...` for `What genre ...`, and the other way round."""
    words = text.split()
    if len(words) < 3 or words[0] not in ("What", "Which"):
        return None
    if words[0] == "What":
        return " ".join(["Which", *words[1:]]) if words[1] in _EITHER else None
    place = split_wh(words)
    plain = words[1] not in ("of", "one", "ones") and (place is None or place > 1)
    return " ".join(["What", *words[1:]]) if plain else None


def preposition_first(text: str) -> str | None:
    """`For which genre is she known?` for `Which genre is she known for?`"""
    words = body_of(text).split()
    place = split_wh(words)
    if place is None or place < 2 or words[0] not in ("What", "Which") or not one_clause(text):
        return None
    last = words[-1]
    if last not in ("by", "for", "from", "in", "of", "to", "with") or words[1] in ("of", "one"):
        return None
    return " ".join([last.capitalize(), words[0].lower(), *words[1:-1]]) + "?"


def preposition_last(text: str) -> str | None:
    """`Which city was she born in?` for `In which city was she born?`; a year needs no "in"."""
    words = body_of(text).split()
    place = split_wh(words)
    if place is None or words[0] != "In" or len(words) - place > 8 or not one_clause(text):
        return None
    if words[1] not in ("what", "which") or words[place - 1] in ("way", "ways", "respect", "which"):
        return None
    if "," in masked(text) or words[-1] in ("in", "on", "at"):
        return None
    stranded = [] if words[place - 1] == "year" else ["in"]
    return " ".join([words[1].capitalize(), *words[2:], *stranded]) + "?"


def in_what_year(text: str) -> str | None:
    """`In what year did it fall?` for `What year did it fall?`"""
    match = re.match(r"(?:What|Which) year (?:did|was|were) ", text)
    ends_free = not re.search(r" in\?$", text)
    return f"In {text[0].lower()}{text[1:]}" if match and ends_free else None


def in_what_way(text: str) -> str | None:
    """`In what way has it ...?` for `How has it ...?`"""
    match = re.match(r"How ((?:has|have|does|did) (?!you\b|one\b).+)$", text)
    unsure = re.search(r"\bin terms of\b|\bbeen\b", text)
    return f"In what way {match[1]}" if match and not unsure else None


def cleft(text: str) -> str | None:
    """`Who was it that wrote it?` for `Who wrote it?`"""
    match = re.match(r"(Who|What) (\w+) (.+)$", text)
    if match is None or match[2] not in SUBJECT_VERBS or not one_clause(text):
        return None
    be = "is" if match[2].endswith("s") else "was"
    return f"{match[1]} {be} it that {match[2]} {match[3]}"


def passive(text: str) -> str | None:
    """`By whom was it written?` for `Who wrote it?`, and the same of `Which author wrote it?`"""
    match = re.match(r"(Who|Which [\w-]+(?: [\w-]+)?) (\w+) (.+)$", body_of(text))
    if match is None or match[2] not in _AUTHORED or not _one_work(match[3]):
        return None
    agent = "whom" if match[1] == "Who" else f"which{match[1].removeprefix('Which')}"
    return f"By {agent} was {match[3]} {_AUTHORED[match[2]]}?"


def active(text: str) -> str | None:
    """`Which author wrote it?` for `It was written by which author?`"""
    match = re.match(r"(.+?) (?:was|were) written by which ([^,]+)$", body_of(text))
    if match is None or "," in masked(match[1]):
        return None
    return f"Which {match[2]} wrote {re.sub(r'^The ', 'the ', match[1])}?"


def place_first(text: str) -> str | None:
    """`In which city is it?` for `It is in which city?`"""
    pattern = r"The ([^,]+?) (is|are|was|were) ((?:\w+ed |born )?)(in|on) (which [\w. ]+)$"
    match = re.match(pattern, body_of(text))
    if match is None:
        return None
    thing, verb, done, at, where = match.groups()
    return f"{at.capitalize()} {where} {verb} the {thing} {done}".rstrip() + "?"


def author_of(text: str) -> str | None:
    """`Who wrote it?` for `Who is the author of it?`, and the other way round."""
    match = re.match(r"Who (wrote|is the author of) (.+)$", body_of(text))
    if match is None or not _one_work(match[2]):
        return None
    other = "is the author of" if match[1] == "wrote" else "wrote"
    return f"Who {other} {match[2]}?"


def contraction(text: str) -> str | None:
    """`What's ...` for `What is ...`, and the other way round."""
    match = re.match(r"(What|Who|Where)( is|['’]s) (?=the |a |an |next )(.+)$", text)
    if match is None:
        return None
    return f"{match[1]}{chr(39) + 's' if match[2] == ' is' else ' is'} {match[3]}"


def _one_work(phrase: str) -> bool:
    """True for the name of one work and no more: a title, or "the novel" and its title."""
    bare = masked(phrase)
    more = re.search(r",|\b(?:and|for which|that|who|about)\b", bare)
    return bool(re.match(_WORK, bare)) and not more


PARTS: tuple[tuple[Part, str], ...] = (
    (_question, "whole"),
    (opening, "opening"),
    (indirect, "indirect"),
    (wanted, "wanted"),
    (task, "task"),
)
TURNS: tuple[Part, ...] = (
    other_determiner,
    preposition_first,
    preposition_last,
    in_what_year,
    in_what_way,
    cleft,
    passive,
    active,
    place_first,
    author_of,
    contraction,
)
