"""The texts that an untouched model is asked for, and the tables of what it remembers."""

from __future__ import annotations

from memorisation import MOST, SUFFIX, Question, by_document, by_prefix, documents


def test_documents_are_one_line_each_and_long_enough() -> None:
    texts = documents()
    assert {"constitution", "genesis", "pep20"} <= texts.keys()
    assert texts["pep20"].startswith("The Zen of Python, by Tim Peters Beautiful is better")
    for text in texts.values():
        assert "\n" not in text
        assert 20 + SUFFIX <= len(text.split()) <= MOST


def test_tables() -> None:
    found = [
        Question("a.txt/000020", 5, 0.0, 1e-9, False),
        Question("b.txt/000020", 5, 1e-4, 4e-4, True),
        Question("b.txt/000040", 5, 2e-6, 2e-5, False),
        Question("a.txt/000020", 20, 0.0, 0.0, False),
        Question("b.txt/000020", 20, 0.5, 1.0, True),
        Question("b.txt/000040", 20, 0.25, 0.5, True),
    ]
    assert by_prefix(found)[-2:] == [
        "| 5 | 3 | 1 | 2 | 2 | 2.0e-06 | 2.0e-05 | 7.0 | 1 | 1 |",
        "| 20 | 3 | 2 | 2 | 2 | 2.5e-01 | 5.0e-01 | 2.0 | 2 | 2 |",
    ]
    assert len({row.count("|") for row in by_prefix(found)}) == 1
    assert by_document(found)[-2:] == [
        "| b | 20 | 5.0e-01 | 2 | 1.0e+00 | 1 |",
        "| a | 20 | 0.0e+00 | inf | 0.0e+00 | inf |",
    ]
