"""The words of docs, docstrings and messages, and the length of their sentences."""

from __future__ import annotations

import pytest

from budgets import BUDGETS
from english import length, rate, texts


@pytest.fixture(scope="module")
def words():
    return texts()


@pytest.mark.parametrize("kind", BUDGETS["english"]["dialect"])
def test_few_words_of_the_dialect(words, kind):
    assert rate(words[kind]) <= BUDGETS["english"]["dialect"][kind]
    assert length(words[kind]) <= BUDGETS["english"]["words_of_a_sentence"]


def test_a_sentence_of_the_dialect_is_counted():
    page = [("page", 1, "Whoever asked is told so. It goes on anew.")]
    assert rate(page) > 1_000
    assert length(page) == 4.5
