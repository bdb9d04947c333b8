"""Files of samples that belong together, and those that do not: copies, other models, gaps."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from contents import drawn
from leakbound.errors import InputError
from leakbound.formats.imported import ImportedLog, ImportedQuestion
from leakbound.formats.joined import join, require_no_copies

SAMPLED = {"temperature": 1.0}


def log(
    name: str, draws: Sequence[Sequence[str | None]], ordered: bool = True, **stated: Any
) -> ImportedLog:
    """A question for each list of texts; None is a draw that failed."""
    asked = tuple(
        ImportedQuestion(
            id=str(i), text=f"Q{i}?", draws=tuple(t if t is None else drawn(t) for t in texts)
        )
        for i, texts in enumerate(draws)
    )
    stated = SAMPLED | stated
    return ImportedLog(
        path=Path(name), tool="t", model="m", task="s", stated=stated, asked=asked, ordered=ordered
    )


def texts(seed: int, n: int = 32, questions: int = 3, kinds: int = 4) -> list[list[str]]:
    chance = random.Random(seed)
    return [[f"text {chance.randrange(kinds)}" for _ in range(n)] for _ in range(questions)]


def test_the_draws_of_two_files_stand_one_after_the_other() -> None:
    both = join([log("one", [["a"], ["b"]], seed=1), log("two", [["c"], [None]], seed=2)])
    a, b, c = map(drawn, "abc")
    assert [tuple(one.draws) for one in both.asked] == [(a, c), (b, None)]
    assert (both.n, both.model, both.sampled_by) == (2, "m", "t")


@pytest.mark.parametrize("shift", [0, 1, 7])
def test_draws_that_stand_in_two_files_are_copies(shift: int) -> None:
    one = texts(0, n=40)
    two = [row[shift:] + fresh[:shift] for row, fresh in zip(one, texts(1, n=40), strict=True)]
    for pair in ((one, two), (two, one)):
        logs = [log(name, draws) for name, draws in zip(("one", "two"), pair, strict=True)]
        with pytest.raises(InputError, match=rf"copies.*`one` stand in `two`.* {shift} places on"):
            require_no_copies(logs)


def test_draws_that_a_file_repeats_are_copies() -> None:
    with pytest.raises(InputError, match=r"48 draws of `one` stand again.* 16 places"):
        join([log("one", [row * 2 for row in texts(0, n=16)])])


def test_one_draw_that_differs_is_enough_to_tell_and_one_that_failed_tells_nothing() -> None:
    one: list[list[str | None]] = [list(row) for row in texts(0)]
    two = [list(row) for row in one]
    two[-1][-1] = "another"
    require_no_copies([log("one", one), log("two", two)])
    two = [list(row) for row in one]
    two[0][3] = one[1][5] = None
    with pytest.raises(InputError, match=r"94 draws"):
        require_no_copies([log("one", one), log("two", two)])


@pytest.mark.parametrize("seed", range(20))
def test_independent_draws_pass(seed: int) -> None:
    peaked = [["always"] * 32, *texts(seed, kinds=2, questions=1)]
    logs = [log("one", texts(seed)), log("two", texts(seed + 100))]
    require_no_copies(logs)
    require_no_copies([log("one", peaked), log("two", [["always"] * 32, *texts(seed + 50)])])


def test_few_draws_alike_and_counts_without_order_tell_nothing() -> None:
    few = [["a", "b", "a"]]
    require_no_copies([log("one", few), log("two", few)])
    one = texts(0)
    require_no_copies([log("one", one, ordered=False), log("two", one, ordered=False)])


def test_one_text_throughout_is_doubted_and_with_a_seed_refused() -> None:
    same = [["a"] * 4, [None, "b", "b", "b"]]
    (doubt,) = join([log("one", same)]).notes
    assert "all draws of every question in `one` are the same" in doubt
    with pytest.raises(InputError, match=r"same, and all were made with the seed 5"):
        join([log("one", same, seed=5)])
    assert not join([log("one", [["a"] * 4, ["b", "c", "b", "b"]])]).notes
    assert not join([log("one", [["a"], ["b"]], top_k=0)]).notes
    (doubt,) = join([log("one", [["a", "b"]], seed=5)]).notes
    assert "one seed, 5, for all draws" in doubt


def test_greedy_answers_that_agree_are_one_draw() -> None:
    greedy = join([log("one", [["a", "a"], [None, "b"], [None, None]], temperature=0.0)])
    assert [one.draws for one in greedy.asked] == [(drawn("a"),), (drawn("b"),), (None,)]
    assert (greedy.n, greedy.notes) == (1, ())
    with pytest.raises(InputError, match=r"one output, got 2 for question '0'"):
        join([log("one", [["a", "b"]], temperature=0.0)])


def test_draws_are_compared_by_their_texts_and_not_by_their_tokens() -> None:
    """A cache or a seed repeats texts, whatever a log has counted of each."""
    one, two = (
        replace(
            log(name, []),
            asked=tuple(
                ImportedQuestion(
                    id=str(i),
                    text="Q?",
                    draws=tuple(drawn(t, tokens=tokens, finish=finish) for t in row),
                )
                for i, row in enumerate(texts(0))
            ),
        )
        for name, tokens, finish in (("one", 3, "stop"), ("two", 4, "unknown"))
    )
    with pytest.raises(InputError, match=r"96 draws of `one` stand in `two`"):
        require_no_copies([one, two])
    thoughts = [drawn("a", thought=str(i)) for i in range(64)]
    asked = (ImportedQuestion(id="0", text="Q?", draws=thoughts),)
    require_no_copies([replace(one, asked=asked)])
    assert not join([replace(one, asked=asked)]).notes  # other thoughts, so not all the same
    same = (drawn("a", tokens=2), drawn("a", tokens=3), drawn("a", finish="stop"))
    greedy = log("one", [], temperature=0.0)
    joined = join([replace(greedy, asked=(replace(one.asked[0], draws=same),))])
    assert [draw and draw.output.answer for draw in joined.asked[0].draws] == ["a"]


def test_what_differs_between_files_is_named() -> None:
    one, two = log("one", [["a"]]), log("two", [["a"]])
    asked = (ImportedQuestion(id="0", text="Another?", draws=(drawn("a"),)),)
    for other, said in (
        (log("two", [["a"]], top_p=0.5), r"`top_p` is None in `one` and 0.5 in `two`"),
        (replace(two, model="z"), r"`model` is 'm' in `one` and 'z' in `two`"),
        (replace(two, asked=asked), r"'0' has another text .* `two` than in `one`"),
    ):
        with pytest.raises(InputError, match=said):
            join([one, other])


@pytest.mark.parametrize("draws", [[["a"], ["b", "c"]], [[]]])
def test_every_question_needs_as_many_draws(draws: list[list[str]]) -> None:
    with pytest.raises(InputError, match="as many draws as every other"):
        join([log("one", draws)])
