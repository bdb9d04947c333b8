from __future__ import annotations

import pytest

from leakbound.inputs.english.facts import handed_over, keeps_facts, names_and_numbers


@pytest.mark.parametrize(
    ("question", "facts"),
    [
        ("What is the name?", ()),
        ("Who is Wei-Jun Chen?", ("Wei-Jun", "Chen")),
        ("Has Hina Ameen's work won?", ("Hina", "Ameen")),
        ("Mount Etna is where?", ("Mount", "Etna")),
        ("Name Ada's pet.", ("Ada",)),
        ("Sources say what?", ()),
        ("She won. Where? The author told Ada.", ("Ada",)),
        ("Who wrote 'To Kill a Mockingbird'?", ("To Kill a Mockingbird",)),
        ("What is in “Le Petit Sultan,” I ask?", ("Le Petit Sultan",)),
        ("Who is the Nobel Prize-winning author?", ("Nobel", "Prize")),
        ("Who was born on 05/11/1991 in Taipei?", ("05/11/1991", "Taipei")),
        ("Who was born on the 4th of June, 1934?", ("4", "1934", "June")),
        ("What does Zoë’s mother do?", ("Zoë",)),
        ("Which U.S. state is it?", ("U.S",)),
    ],
)
def test_names_and_numbers(question: str, facts: tuple[str, ...]) -> None:
    assert names_and_numbers(question) == facts


@pytest.mark.parametrize(
    ("question", "text", "kept"),
    [
        ("Who is Ada Vale?", "Tell me about ada vale.", True),
        ("Who is Ada Vale?", "Who is Vale?", False),
        ("Who is Ada Vale?", "Who is Ada Valesca?", False),
        ("Who was born on June 4, 1934?", "Who, on the 4th of June 1934, was born?", True),
        ("Who was born on June 4, 1934?", "Who was born on June 14, 1934?", False),
        ("Who was born on 08/09/1956?", "Who was born on September 8, 1956?", False),
        ("Who wrote 'The Dune'?", "By whom is “The Dune”?", True),
        ("Who wrote 'The Dune'?", "By whom is Dune?", False),
    ],
)
def test_a_rewriting_keeps_every_fact(question: str, text: str, kept: bool) -> None:
    assert keeps_facts(question, text) is kept


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
def test_what_hands_the_answer_over(text: str, shared: set[str]) -> None:
    answer = "Ada Vale wrote the Nordic novels Moonrise and Žižek."
    assert handed_over("What did Ada Vale write?", answer, text) == shared
