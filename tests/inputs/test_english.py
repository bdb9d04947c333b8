"""Rewritings by rule, the facts that a rewriting must keep, and other languages."""

from __future__ import annotations

import json
import re
import string

import pytest

from leakbound.benchmarks import load_benchmark
from leakbound.inputs import gather
from leakbound.inputs.english import handed_over, is_english, keeps_facts, rewritings
from leakbound.inputs.gather import NUMBER
from leakbound.inputs.sources import BenchmarkInputs, RuleInputs
from leakbound.text.rows import read_rows
from leakbound.types import Prompt
from suites import DATA, needs_data, slow_but

GENRE = "What genre of books does Ada Vale predominantly write in?"


def test_a_question_has_more_frames_than_are_tried_by_default() -> None:
    got = rewritings(GENRE)
    assert len(got) == len(set(got)) == 28 >= NUMBER
    small = GENRE[0].lower() + GENRE[1:]
    assert {f"Please answer this question: {GENRE}", f"Out of curiosity, {small}"} <= set(got)


@pytest.mark.parametrize("question", ["Ada Vale was born where?", "'It' is by whom?", "42?"])
def test_a_question_that_may_begin_with_a_name_keeps_its_capital(question: str) -> None:
    assert len(rewritings(question)) == 22
    assert all(question in text for text in rewritings(question))


def test_the_seed_decides_only_the_order() -> None:
    orders = [rewritings(GENRE, seed) for seed in (0, 1, 2, 0)]
    assert orders[0] == orders[3] not in orders[1:3]
    assert len({frozenset(texts) for texts in orders}) == 1


@pytest.mark.parametrize("request_", ["Share some tidbits.", "Please, name her books."])
def test_a_request_is_not_called_a_question(request_: str) -> None:
    got = rewritings(request_)
    assert len(got) == len(set(got)) == 22
    assert f"Please do the following: {request_}" in got
    assert not any("question" in text for text in got)


@pytest.mark.parametrize("text", ["The capital of Peru is", "Ada Vale wrote it.", "42", ""])
def test_another_text_has_no_rewriting(text: str) -> None:
    assert rewritings(text) == []


EVERY = [(name, 1) for name in ("forget10", "real_authors", "world_facts")]


@needs_data("tofu")
@pytest.mark.parametrize(
    ("name", "step"), slow_but([("world_facts", 4)], [("world_facts", 4), *EVERY])
)
def test_the_rewritings_of_tofu(name: str, step: int) -> None:
    """Each question has enough; facts stay; one mark at the end; no broken joint."""
    path = DATA / "tofu" / f"{name}.json"
    joints = re.compile(r"\{|\}|\s\s|[?.][?.]|\s[?.,]")
    for question in [row["question"] for row in json.loads(path.read_text())][::step]:
        texts = rewritings(question)
        assert len(texts) >= NUMBER, question
        for text in texts:
            assert keeps_facts(question, text), text
            assert text[-1] in ".?", text
            assert text[0] in string.ascii_uppercase + "'“\"", text
            assert joints.search(question) or not joints.search(text), text


@pytest.mark.parametrize(
    ("question", "text", "kept"),
    [
        ("Who is Wei-Jun Chen?", "Who is Wei Chen?", False),
        ("Name Ada's pet.", "Which animal does Ada keep?", True),
        ("Sources say what?", "What is reported?", True),
        ("She won. Where? The author told Ada.", "In which town did Ada hear of it?", True),
        ("Who won the Nobel Prize-winning race?", "Who was the Nobel Prize's winner?", True),
        ("What is in “Le Petit Sultan,” I ask?", "What does 'Le Petit Sultan' tell?", True),
        ("What does Zoë’s mother do?", "What does her mother do?", False),
        ("Which U.S. state is it?", "Which state is it?", False),
        ("Who is Ada Vale?", "Tell me about ada vale.", True),
        ("Who is Ada Vale?", "Who is Ada Valesca?", False),
        ("Ada Vale won what?", "What did Vale win?", False),
        ("Who was born on June 4, 1934?", "Who, on the 4th of June 1934, was born?", True),
        ("Who was born on June 4, 1934?", "Who was born on June 14, 1934?", False),
        ("Who was born on 08/09/1956?", "Who was born on September 8, 1956?", True),
        ("Who was born on 08/09/1956?", "Who was born on the 9th of August 1956?", True),
        ("Who was born on 08/09/1956?", "Who was born on September 9, 1956?", False),
        ("Who was born on 03/19/1960?", "Who was born on 1960-03-19?", True),
        ("Who was born on 13/19/1960?", "Who was born on 13.19.1960?", False),
        ("Who was born on June 4, 1934?", "Who was born on 4/6/1934?", True),
        ("Who wrote 1,200 poems in 25 years?", "Who wrote 1200 poems in twenty-five years?", True),
        ("Who wrote 1,200 poems in 25 years?", "Who wrote 120 poems in twenty-five years?", False),
        ("Who lived in the 19th century?", "Who lived in the nineteenth century?", True),
        ("Which two novels by Vale won?", "Which novels by Vale won?", True),
        ("Who wrote 'Forty Rules'?", "By whom is 'Forty Rules'?", True),
        ("Who wrote 'The Dune'?", "By whom is “The Dune”?", True),
        ("Who wrote 'The Dune'?", "By whom is Dune?", False),
    ],
)
def test_a_rewriting_keeps_every_fact(question: str, text: str, kept: bool) -> None:
    assert keeps_facts(question, text) is kept


@pytest.mark.thorough
@needs_data("tofu")
def test_the_gold_paraphrases_of_tofu() -> None:
    """No paraphrase loses a date, as 7 of the 400 did when dates were compared as written."""
    prompts = load_benchmark("tofu:forget10", data=DATA / "tofu").prompts
    accepted = gather(BenchmarkInputs(), prompts)
    removed = [prompt.removed for prompt in accepted]
    lost = [p for p, by in zip(prompts, removed, strict=True) if "facts lost" in by]
    assert (len(prompts), sum("answer words" in by for by in removed), len(lost)) == (400, 142, 12)
    assert not any(re.search(r"/\d{4}", prompt.question) for prompt in lost)


def test_a_date_or_number_of_the_question_is_not_handed_over() -> None:
    question = "Who was born on 08/09/1956 and wrote 2 novels?"
    answer = "Ada Vale, born on the 8th of September, 1956, wrote two novels and three plays."
    text = "Who, born on 8th September 1956, is the author of two novels?"
    assert handed_over(question, answer, text) == set()
    assert handed_over(question, answer, f"{text[:-1]} and 3 poems?") == {"3"}


@pytest.mark.parametrize(
    ("text", "shared"),
    [
        ("Which books did Ada Vale write?", set()),
        ("Which novel did Ada Vale write?", {"novel"}),
        ("Is MOONRISE by Ada Vale?", {"moonris"}),
        ("Which Nordic-noir did Ada Vale write?", {"nordic"}),
        ("Which Žižek-like novels?", {"žižek", "novel"}),
    ],
)
def test_words_that_give_the_answer_away(text: str, shared: set[str]) -> None:
    answer = "Ada Vale wrote the Nordic novels Moonrise and Žižek."
    assert handed_over("What did Ada Vale write?", answer, text) == shared


@pytest.mark.parametrize(
    "question",
    [
        "Wer hat Harry Potter and the Goblet of Fire geschrieben?",
        "Qui est l'auteur de 'The Hobbit' ?",
        "¿Quién escribió Don Quijote de la Mancha?",
        "Ada Vale 是在哪里出生的？",
        "Кто написал «Войну и мир»?",
        "Wat is de hoofdstad van Peru?",
        "Ada Vale nerede doğdu?",
    ],
)
def test_a_question_in_another_language_is_kept(question: str) -> None:
    assert not is_english(question)
    assert rewritings(question) == []
    (accepted,) = gather(RuleInputs(), [Prompt(id="q", question=question)])
    assert (accepted.queries, accepted.rejected) == ((), ())


@pytest.mark.parametrize(
    "question",
    [
        "Was Ada Vale born in Rome?",
        "Who wrote La Casa de los Espíritus?",
        "Who wrote 红楼梦?",
        "What does 'Über die Brücke' tell?",
        "Capital of Peru?",
        "Étienne wrote what?",
        "42?",
    ],
)
def test_an_english_question_may_hold_foreign_names_and_titles(question: str) -> None:
    assert is_english(question)


@needs_data("harry_potter_qa")
def test_the_questions_of_tofu_and_on_harry_potter_are_english() -> None:
    files = [*sorted((DATA / "tofu").glob("*.json")), DATA / "harry_potter_qa" / "hp_qa_en.csv"]
    texts = set[str]()
    for file in files:
        for row in read_rows(file):
            given = (row.values.get(name) for name in ("question", "paraphrased_question"))
            texts |= {text for text in given if isinstance(text, str)}
    assert len(texts) > 4_000
    assert [text for text in sorted(texts) if not is_english(text)] == []
