"""Test the scorer with leakbound's own checks: `pytest examples/third-party/tests`."""

from __future__ import annotations

import pytest
from leakbound_capitals import FirstWord, load

from leakbound.errors import InputError
from leakbound.testing import check_scorer
from leakbound.types import Prompt


@pytest.mark.parametrize("exact", ["no", "yes"])
def test_the_scorer_keeps_its_promises(exact: str) -> None:
    for prompt in load().prompts:
        check_scorer(FirstWord(exact), prompt, texts=["It is Paris", "paris, of course", "Lima."])


def test_a_prompt_without_an_answer_is_refused() -> None:
    with pytest.raises(InputError, match="needs an answer"):
        check_scorer(FirstWord(), Prompt(id="q", question="Where?"))
