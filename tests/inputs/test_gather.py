from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

import pytest

from fake_models import FakeEmbed
from leakbound.errors import InputError
from leakbound.inputs import Filters, gather
from leakbound.inputs.sources import BenchmarkInputs
from leakbound.types import Prompt

QUESTION = "Where was Ada Vale born in 1953?"
ANSWER = "She was born in Velmora."
GOOD = "In which town was Ada Vale born in 1953?"
TEXTS = {
    GOOD: None,
    " ?! ": "empty",
    "where was ada vale born in 1953": "the question",
    "she was born in velmora": "the answer",
    "Where was she born in 1953?": "facts lost",
    "Where was Ada Vale born?": "facts lost",
    "Was Ada Vale born in Velmora in 1953?": "answer words",
    "In which town was ADA Vale born, in 1953": "duplicate",
}


@dataclass(frozen=True)
class Listed:
    """The paraphrases as draws from a distribution."""

    finite: bool = False
    lists: int | None = None
    name: ClassVar[str] = "listed"

    def rewritings(self, prompts: list[Prompt], number: int, seed: int) -> list[list[str]]:
        return [list(p.paraphrases[:number]) for p in prompts][: self.lists]


def prompt(*paraphrases: str, id: str = "p", answer: str | None = ANSWER) -> Prompt:
    return Prompt(id=id, question=QUESTION, answer=answer, paraphrases=paraphrases)


def test_each_filter_removes_its_own_and_says_why() -> None:
    (accepted,) = gather(BenchmarkInputs(), [prompt(*TEXTS)])
    assert accepted.queries == (GOOD,)
    reasons = {removed.text: removed.reason for removed in accepted.rejected}
    assert reasons == {text: reason for text, reason in TEXTS.items() if reason}
    assert accepted.removed == {
        "empty": 1,
        "the question": 1,
        "the answer": 1,
        "duplicate": 1,
        "facts lost": 2,
        "answer words": 1,
    }
    assert accepted.note is None


def test_draws_from_a_distribution_keep_their_repeats() -> None:
    texts = (GOOD, GOOD, GOOD.lower(), QUESTION)
    (drawn,) = gather(Listed(), [prompt(*texts)])
    assert drawn.queries == texts[:3]
    assert drawn.removed == {"the question": 1}
    (listed,) = gather(Listed(finite=True), [prompt(*texts)])
    assert listed.queries == (GOOD,)


def test_keywords_are_answers_and_without_an_answer_nothing_can_be_handed_over() -> None:
    asked = Prompt(id="h", question="Who is it?", keywords=("Ron",), paraphrases=("Is it Ron?",))
    (accepted,) = gather(BenchmarkInputs(), [asked])
    assert accepted.removed == {"answer words": 1}
    silent = prompt("Was Ada Vale of 1953 from Velmora?", answer=None)
    (accepted,) = gather(BenchmarkInputs(), [silent])
    assert len(accepted.queries) == 1
    (accepted,) = gather(BenchmarkInputs(), [prompt("Where?", "Where?")])
    assert accepted.removed == {"facts lost": 2}  # an unfit text makes the next no duplicate


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ((), "the source gave none"),
        ((QUESTION, ANSWER, QUESTION), r"3 removed \(the question: 2, the answer: 1\)"),
    ],
)
def test_a_question_without_rewritings_says_so(texts: tuple[str, ...], said: str) -> None:
    empty, other = gather(BenchmarkInputs(), [prompt(*texts, id="a"), prompt(GOOD, id="b")])
    assert empty.queries == ()
    assert re.search(rf"'a', {said}: its original question alone", empty.note or "")
    assert (other.prompt_id, other.queries, other.note) == ("b", (GOOD,), None)


def test_similarity_is_a_cosine_and_its_limit_is_inclusive() -> None:
    near, edge, far = (f"{word} was Ada Vale born in 1953?" for word in ("Why", "How", "When"))
    vectors = {QUESTION: (2, 0), near: (9, 1), edge: (0.8, 0.6), far: (0.79, 0.61)}
    embed = FakeEmbed(vectors)
    texts = (near, edge, far, "Where?", near)
    first, second = gather(
        Listed(), [prompt(*texts), prompt(far, id="b")], filters=Filters(embed=embed)
    )
    assert first.queries == (near, edge, near)
    assert first.removed == {"facts lost": 1, "dissimilar": 1}
    assert second.queries == ()
    assert embed.asked == [[QUESTION, near, edge, far]]
    (strict,) = gather(Listed(), [prompt(*texts)], filters=Filters(embed=embed, similarity=0.9))
    assert strict.queries == (near, near)


def test_vectors_that_are_none_are_refused_and_for_no_text_none_is_asked() -> None:
    embed = FakeEmbed({})
    (accepted,) = gather(Listed(), [prompt()], filters=Filters(embed=embed))
    assert (accepted.queries, embed.asked) == ((), [])
    for bad in ((0.0, 0.0), (float("nan"), 1.0), (float("inf"), 1.0)):
        embed = FakeEmbed({QUESTION: (1, 0), GOOD: bad})
        with pytest.raises(InputError, match=r"'fake'.*no direction.*In which town"):
            gather(Listed(), [prompt(GOOD)], filters=Filters(embed=embed))
    embed = FakeEmbed({QUESTION: 1, GOOD: 0})  # type: ignore[dict-item]
    with pytest.raises(InputError, match=r"one vector a text, got shape \(2,\)"):
        gather(Listed(), [prompt(GOOD)], filters=Filters(embed=embed))


def test_wrong_use_is_refused() -> None:
    with pytest.raises(InputError, match="at least 1, got 0"):
        gather(BenchmarkInputs(), [prompt()], number=0)
    with pytest.raises(InputError, match=r"0\.8 needs an embedder, got none"):
        Filters(similarity=0.8)
    with pytest.raises(InputError, match=r"\[-1, 1\], got 80"):
        Filters(embed=FakeEmbed({}), similarity=80)
    with pytest.raises(InputError, match="one list a prompt, got 0 for 1"):
        gather(Listed(lists=0), [prompt()])
