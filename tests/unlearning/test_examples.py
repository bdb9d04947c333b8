"""Rows as tokens, padding by position, and the order of training."""

from __future__ import annotations

import pytest

from leakbound.engines.prompting import Prompting
from leakbound.errors import InputError
from leakbound.losses import IGNORED
from leakbound.types import Prompt
from leakbound.unlearning.examples import Encoder, Example, pad, schedule
from tiny import tiny_tokenizer


def test_labels_are_the_answer_and_its_end_shifted_by_one() -> None:
    example = Example(prompt=(7, 8, 9), answer=(4, 5, 2))
    assert example.inputs == [7, 8, 9, 4, 5]
    assert example.labels == [IGNORED, IGNORED, 4, 5, 2]


def test_rows_are_encoded_with_prefix_and_end() -> None:
    tokenizer = tiny_tokenizer()
    row = Prompt(id="a", question="who wrote", answer="Ann", prefix="blue ")
    example = Encoder(tokenizer, Prompting()).row(row)
    assert tokenizer.decode(example.prompt) == "Question: who wrote Answer: blue"
    assert tokenizer.convert_ids_to_tokens(example.answer) == ["Ann", "</s>"]


def test_row_over_the_limit_is_refused_and_named() -> None:
    row = Prompt(id="long", question="who", answer="Ann")  # 3 + 2 tokens
    assert Encoder(tiny_tokenizer(), Prompting(), limit=5).row(row)
    with pytest.raises(InputError, match="'long' has 5 tokens, the limit is 4"):
        Encoder(tiny_tokenizer(), Prompting(), limit=4).row(row)


def test_padding_is_masked_by_position() -> None:
    # Token 0 is also the pad id: inside a row it is a token like any other.
    padded = pad([Example((0, 3), (0, 2)), Example((4,), (2,))])
    assert padded.input_ids.tolist() == [[0, 3, 0], [4, 0, 0]]
    assert padded.attention_mask.tolist() == [[1, 1, 1], [1, 0, 0]]
    assert padded.labels.tolist() == [[IGNORED, 0, 2], [2, IGNORED, IGNORED]]


SIZES = {"forget": 7, "retain": 50}


def steps(seed: int = 0):
    return schedule(SIZES, epochs=3, batch_size=3, seed=seed)


def epochs(split: str, seed: int = 0) -> list[list[int]]:
    flat = [i for step in steps(seed) for i in step[split]]
    return [flat[start : start + 7] for start in (0, 7, 14)]


def test_each_epoch_has_every_row_once_in_a_new_order() -> None:
    found = epochs("forget")
    assert all(sorted(epoch) == list(range(7)) for epoch in found)
    assert found[0] != found[1] != found[2]


def test_batches_do_not_cross_epochs() -> None:
    assert [len(step["forget"]) for step in steps()] == [3, 3, 1] * 3


def test_every_row_meets_one_row_of_the_other_split_new_each_epoch() -> None:
    found = epochs("retain")
    assert all(len(step["retain"]) == len(step["forget"]) for step in steps())
    assert found[0] != found[1] != found[2]
    assert {i for epoch in found for i in epoch} <= set(range(50))
    wide = schedule({"forget": 4000, "retain": 4}, epochs=1, batch_size=4000, seed=0)[0]["retain"]
    assert all(abs(wide.count(i) - 1000) < 150 for i in range(4))  # 5.5 standard deviations


def test_order_belongs_to_the_seed() -> None:
    assert steps() == steps()
    assert steps(seed=1) != steps()
