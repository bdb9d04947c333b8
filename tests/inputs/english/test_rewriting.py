from __future__ import annotations

import itertools
import json
import os
import re
import string
from pathlib import Path

import pytest

from leakbound.inputs.english import rewriting
from leakbound.inputs.english.facts import keeps_facts
from leakbound.inputs.english.questions import (
    FRAMES,
    indirect,
)
from leakbound.inputs.english.rewriting import TURNS, rewritings
from suites import slow_but

DATA = Path(os.environ.get("LEAKBOUND_TEST_DATA", "../shared/data"))
GENRE = "What genre of books does Ada Vale predominantly write in?"


@pytest.mark.parametrize(
    ("question", "clause"),
    [
        (GENRE, "what genre of books Ada Vale predominantly writes in"),
        ("What genre is author Ada Vale known for?", "what genre author Ada Vale is known for"),
        ("Has Ada Vale won any awards?", "whether Ada Vale has won any awards"),
        ("Did Ada Vale ever go abroad?", "whether Ada Vale ever went abroad"),
        ("What is the capital of Peru?", "what the capital of Peru is"),
    ],
)
def test_indirect_questions(question: str, clause: str) -> None:
    assert indirect(question) == clause


@pytest.mark.parametrize(
    "question",
    [
        "How has Ada Vale's quiet childhood shaped her?",  # where does the subject end?
        "Is Star Wars fiction popular?",
        "Did Ada Vale write and publish plays?",  # two verbs want the past
        "What is the author's name and where was he born?",
        "Can you describe a storm?",  # asks for no "whether"
        "What is the name of the author who was born in Rome?",  # too heavy with its verb last
        "What was another novel penned by Ada Vale?",
        "It is cold. Where is Ada Vale?",
        "?",
    ],
)
def test_no_indirect_question_where_the_grammar_is_unsure(question: str) -> None:
    assert indirect(question) is None


@pytest.mark.parametrize(
    ("turn", "question", "turned"),
    [
        ("other_determiner", "What genre does Ada like?", "Which genre does Ada like?"),
        ("other_determiner", "Which novel is it?", "What novel is it?"),
        ("other_determiner", "Which of these is it?", None),
        ("preposition_first", "What genre is Ada known for?", "For what genre is Ada known?"),
        ("preposition_first", "What is Ada known for?", None),
        ("preposition_last", "In which city was Ada born?", "Which city was Ada born in?"),
        ("preposition_last", "In what way did it sink?", None),
        ("preposition_last", "In which year did it end, then?", None),
        ("in_what_year", "What year did it sink?", "In what year did it sink?"),
        ("in_what_way", "How has Ada helped?", "In what way has Ada helped?"),
        ("in_what_way", "How old is Ada?", None),
        ("cleft", "What makes Ada laugh?", "What is it that makes Ada laugh?"),
        ("cleft", "Who wrote 'It'?", "Who was it that wrote 'It'?"),
        ("passive", "Who wrote 'It'?", "By whom was 'It' written?"),
        ("passive", "Which Irish poet wrote 'It'?", "By which Irish poet was 'It' written?"),
        ("passive", "Who wrote the play 'It' about Ada?", None),
        ("active", "The book 'It' was written by which poet?", "Which poet wrote the book 'It'?"),
        ("place_first", "The hill is located in which land?", "In which land is the hill located?"),
        ("author_of", "Who is the author of 'It'?", "Who wrote 'It'?"),
        ("author_of", "Who wrote the play 'It'?", "Who is the author of the play 'It'?"),
        ("author_of", "Who is the author of 'It', a play?", None),
        ("contraction", "What is the name?", "What's the name?"),
        ("contraction", "What’s next for Ada?", "What is next for Ada?"),
    ],
)
def test_turns(turn: str, question: str, turned: str | None) -> None:
    assert getattr(rewriting, turn)(question) == turned


def test_every_turn_is_tried() -> None:
    named = {turn.__name__ for turn in TURNS}  # type: ignore[attr-defined]
    (parametrised,) = test_turns.pytestmark
    assert named == {row[0] for row in parametrised.args[1]}


def test_a_question_has_twenty_forms_and_more() -> None:
    found = rewritings(GENRE)
    assert len(found) == len(set(found)) >= 20
    assert GENRE not in found
    assert {
        "Do you know what genre of books Ada Vale predominantly writes in?",
        "In what genre of books does Ada Vale predominantly write?",
        f"Please answer this question: {GENRE}",
        f"Out of curiosity, {GENRE[0].lower()}{GENRE[1:]}",
    } <= set(found)
    assert sum(map(len, FRAMES.values())) + len(TURNS) >= 60


def test_the_seed_picks_the_order_alone() -> None:
    orders = [rewritings(GENRE, seed) for seed in range(4)]
    assert orders == [rewritings(GENRE, seed) for seed in range(4)]
    for one, other in itertools.combinations(orders, 2):
        assert one != other
        assert sorted(one) == sorted(other)


def test_a_request_is_not_called_a_question() -> None:
    found = rewritings("Share some tidbits about Ada's life.")
    assert "Could you please share some tidbits about Ada's life?" in found
    assert not any("question" in text for text in found)


def test_the_text_itself_is_no_rewriting() -> None:
    text = "Please name Ada's books."
    found = rewritings(text)
    assert "Kindly name Ada's books." in found
    assert text not in found


@pytest.mark.parametrize("text", ["The capital of Peru is", "?", "42"])
def test_what_is_no_question_has_few_forms_or_none(text: str) -> None:
    assert all(text in form for form in rewritings(text))


def tofu(name: str) -> list[str]:
    path = DATA / "tofu" / f"{name}.json"
    if not path.is_file():
        pytest.skip(f"no {path}")
    return [row["question"] for row in json.loads(path.read_text())]


@pytest.mark.parametrize(
    "name", slow_but(["world_facts"], ["forget10", "real_authors", "world_facts"])
)
def test_the_forms_of_tofu(name: str) -> None:
    """At least twenty a question; facts stay; one mark at the end; no broken joint."""
    joints = re.compile(r"\{|\}|\s\s|[?.][?.]|\s[?.,]|\b(\w+) \1\b|\bdo(?:es)?n't\b")
    for question in tofu(name):
        forms = rewritings(question)
        assert len(forms) >= 20, question
        for form in forms:
            assert keeps_facts(question, form), form
            assert form[-1] in ".?", form
            assert form[0] in string.ascii_uppercase + "'“\"", form
            if not joints.search(question):
                assert not joints.search(form), form
