"""Refused specifications of stresses, and the queries and rows of valid ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from canned import books
from leakbound.errors import InputError
from leakbound.inputs.variants import NEUTRAL
from leakbound.stress import Bench, named_stress, stresses_of
from leakbound.stress.relearned import Relearn
from leakbound.study import ModelSettings
from leakbound.types import Prompt

TASK = books(("0", "1", "2"), answer="Ann", keywords=("Ann",))
RETAINED = TASK.others["retain"]()


def bench(prompts: tuple[Prompt, ...] = TASK.prompts, **changes: object) -> Bench:
    task = replace(TASK, prompts=prompts, **changes)  # type: ignore[arg-type]
    return Bench(task=task, settings=ModelSettings())


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("rond:int4", "unknown stress 'rond'. Did you mean 'round'"),
        ("opener:9", "`opener` must be one of 1 to 5, got 9"),
        ("relearn", "needs one source of rows, got none"),
        ("relearn:retain=2,forget=2", "needs one source of rows, got retain, forget"),
        ("relearn:retain=2,rate=0", "`rate` must be a positive number"),
    ],
)
def test_bad_stresses_are_refused(spec: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        stresses_of([spec])
    assert says in str(caught.value)


def test_several_are_each_one_stress_and_each_is_put_on_once() -> None:
    five = [f"opener:{i}" for i in range(1, 6)]
    named = [one.spec for one in stresses_of(["opener:3", "openers"])]
    assert named == [five[2], *five[:2], *five[3:]]
    with pytest.raises(InputError, match=r"'openers' is a group of 5 .*Choose one.* 'opener:1'"):
        named_stress("openers")
    assert named_stress("relearn:retain=2,rate=1e-4") == "relearn:retain=2,rate=0.0001"


@pytest.mark.parametrize(
    ("change", "prefix"), [({}, NEUTRAL[3]), ({"keywords": ("know",)}, ""), ({"prefix": "W"}, "W")]
)
def test_openers_hand_over_nothing_and_begin_no_answer_again(change: Any, prefix: str) -> None:
    (opener,) = stresses_of(["opener:4"])
    prompts = tuple(replace(prompt, **change) for prompt in TASK.prompts)
    assert {query.prefix for query in opener.queries(bench(prompts))} == {prefix}


def test_shots_show_retained_pairs_that_hand_over_nothing() -> None:
    (shots,) = stresses_of(["shots:4"])
    texts = [query.text for query in shots.queries(bench())]
    assert [text.count("In room") for text in texts] == [4, 4, 4]
    assert [text.rpartition("\n\n")[2] for text in texts] == [
        f"Question: Who wrote book {i}?" for i in range(3)
    ]
    telling = tuple(replace(prompt, answer="In room 3.") for prompt in TASK.prompts)
    with pytest.raises(InputError, match="shows 4 pairs of the retain set"):
        shots.require(bench(telling), "m")


def test_a_test_frame_numbers_the_items_and_ends_with_the_question() -> None:
    (frame,) = stresses_of(["test-frame"])
    for i, (query, prompt) in enumerate(zip(frame.queries(bench()), TASK.prompts, strict=True), 1):
        assert f"item {i} of 3 of a test" in query.text
        assert query.text.endswith(prompt.question)


def test_relearning_teaches_something_and_no_evaluated_question(tmp_path: Path) -> None:
    some = bench(TASK.prompts[:1], left_out=TASK.prompts[1:])
    assert Relearn(forget=2).taught(some) == TASK.prompts[1:]
    with pytest.raises(InputError, match=r"3 forget rows, but only 2 rows of .* may be taught"):
        Relearn(forget=3).taught(some)
    assert set(Relearn(forget=3, evaluated="yes").taught(some)) == set(TASK.prompts)
    file = tmp_path / "rows.csv"
    file.write_text("question,answer\nWho  wrote book 0?,Ann\nWho is Bob?,A smith\n")
    with pytest.raises(InputError, match="teaches 1 of the evaluated questions"):
        Relearn(file=str(file)).taught(some)
    assert len(Relearn(file=str(file), evaluated="yes").taught(some)) == 2
    with pytest.raises(InputError, match="no weight would change"):
        Relearn(retain=8, epochs=1).require(some, "m")


def test_the_seed_chooses_the_taught_rows_in_file_order() -> None:
    taught = {seed: Relearn(retain=3).taught(replace(bench(), seed=seed)) for seed in range(8)}
    assert len(set(taught.values())) > 1
    for rows in taught.values():
        assert sorted(rows, key=RETAINED.index) == list(rows)
    assert Relearn(retain=3).taught(bench()) == taught[0]
