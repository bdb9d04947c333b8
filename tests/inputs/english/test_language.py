from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import pytest

from leakbound.benchmarks import load_benchmark
from leakbound.inputs import gather
from leakbound.inputs.english.facts import is_english
from leakbound.inputs.english.rewriting import rewritings
from leakbound.inputs.sources import RuleInputs
from leakbound.types import Prompt

DATA = Path(os.environ.get("LEAKBOUND_TEST_DATA", "../shared/data"))


@pytest.mark.parametrize(
    "question",
    [
        "Was ist die Hauptstadt von Peru?",
        "Was geschah in Wien?",
        "Wer schrieb Der Prozess?",
        "Wer hat Harry Potter and the Goblet of Fire geschrieben?",
        "In welchem Genre schreibt Ada Vale?",
        "Wann starb Goethe?",
        "Nenne zwei Bücher von Ada Vale.",
        "Quelle est la capitale du Pérou ?",
        "Qui est l'auteur de 'The Hobbit' ?",
        "Dans quel genre écrit-elle ?",
        "Que fait Ada ?",
        "¿Cuál es la capital de Perú?",
        "¿Quién escribió Don Quijote de la Mancha?",
        "¿Dónde nació Ada Vale?",
        "Nombra dos libros de Ada Vale.",
        "秘鲁的首都是什么？",
        "Ada Vale 是在哪里出生的？",
        "谁写了《红楼梦》?",
        "Кто написал «Войну и мир»?",
        "Где родилась Ada Vale?",
        "Wat is de hoofdstad van Peru?",
        "Quem escreveu Dom Casmurro?",
        "Chi ha scritto La Divina Commedia?",
        "Vem skrev Röda rummet?",
        "Kto napisał Pana Tadeusza?",
        "Ada Vale nerede doğdu?",
    ],
)
def test_a_question_in_another_language_is_left_alone(question: str) -> None:
    assert not is_english(question)
    assert rewritings(question) == []
    (accepted,) = gather(RuleInputs(), [Prompt(id="q", question=question)])
    assert accepted.queries == ()
    assert "the source gave none" in (accepted.note or "")


@pytest.mark.parametrize(
    "question",
    [
        "Was Ada Vale born in Rome?",
        "Who is Jorge de la Vega y los Santos?",
        "Who wrote La Casa de los Espíritus?",
        "Who wrote 红楼梦?",
        "What does 'Über die Brücke' tell?",
        "What does Le Petit Prince mean?",
        "Is Ada Vale still active?",
        "Did he die in a war?",
        "Name Ada Vale's books.",
        "Capital of Peru?",
        "Étienne wrote what?",
        "42?",
    ],
)
def test_an_english_question_may_hold_foreign_names_and_titles(question: str) -> None:
    assert is_english(question)


def test_the_questions_of_the_built_in_benchmark_are_english() -> None:
    for prompt in load_benchmark("fictitious").prompts:
        assert is_english(prompt.question), prompt.question
        assert rewritings(prompt.question), prompt.question


def test_the_questions_of_tofu_are_english() -> None:
    files = sorted((DATA / "tofu").glob("*.json"))
    if not files:
        pytest.skip(f"no {DATA / 'tofu'}")
    rows = [row for file in files for row in json.loads(file.read_text())]
    texts = {row[key] for row in rows for key in ("question", "paraphrased_question") if key in row}
    assert [text for text in sorted(texts) if not is_english(text)] == []


def test_the_questions_on_harry_potter_are_english() -> None:
    path = DATA / "harry_potter_qa" / "hp_qa_en.csv"
    if not path.is_file():
        pytest.skip(f"no {path}")
    with path.open(newline="") as file:
        texts = [row["Question"] for row in csv.DictReader(file)]
    assert texts
    assert [text for text in texts if not is_english(text)] == []
