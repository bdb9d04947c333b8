"""What a search may ask: openers, retained pairs, and combinations of all it may change."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from leakbound.benchmarks import load_benchmark
from leakbound.inputs.variants import (
    NEUTRAL,
    PREFIXES,
    SHOTS,
    Space,
    Variant,
    gives_away,
    openers,
    shots,
    variants,
    with_shots,
)
from leakbound.types import Decoding, Prompt, Query

PROMPT = Prompt(
    id="p",
    question="Who wrote Red Sky?",
    answer="Ann Lee of Oslo wrote it.",
    keywords=("Ann Lee",),
)
TEMPLATE = "Question: {question}\nAnswer: "


def pair(number: int, **changes: str) -> Prompt:
    asked = {"question": f"Where is book {number}?", "answer": f"In room {number}."}
    return Prompt(id=f"r{number}", role="retain", **{**asked, **changes})


RETAINED = [pair(i) for i in range(40)]


def test_no_opener_has_content_of_the_answer() -> None:
    assert openers(PROMPT) == ("", *NEUTRAL)
    own = ("Of course, the writer of Red Sky is", "Sure, Lee was", "In Oslo", "The answer is")
    assert openers(PROMPT, own) == ("", own[0], own[3], *NEUTRAL[1:])
    remembers = replace(PROMPT, answer="I remember it.")
    assert NEUTRAL[2] not in openers(remembers)
    assert len(openers(remembers)) == len(NEUTRAL)
    assert not any(gives_away(PROMPT, text) for text in openers(PROMPT))


def test_an_answer_that_has_begun_is_not_opened_again() -> None:
    assert openers(replace(PROMPT, prefix="Once"), ("Sure,",)) == ("Once",)


def test_shots_are_retained_pairs_chosen_by_seed_that_give_nothing_away() -> None:
    told = [pair(50 + i, answer=f"In Oslo, room {i}.") for i in range(40)]
    silent = [replace(pair(100 + i), answer=None) for i in range(10)]
    found = shots(PROMPT, [*told, *silent, PROMPT, *RETAINED], seed=0)
    assert [len(pairs) for pairs in found] == [SHOTS] * PREFIXES
    ids = [one.id for pairs in found for one in pairs]
    assert len(set(ids)) == PREFIXES * SHOTS
    assert all(one in RETAINED for pairs in found for one in pairs)
    assert found == shots(PROMPT, [*told, *silent, PROMPT, *RETAINED], seed=0)
    assert found != shots(PROMPT, RETAINED, seed=1)
    assert found != shots(replace(PROMPT, id="p2"), [*told, *silent, PROMPT, *RETAINED], seed=0)
    assert shots(PROMPT, [], seed=0) == ()
    assert len(shots(PROMPT, RETAINED[: SHOTS + 1], seed=0)) == 1
    itself = Prompt(id="y", question="Is it?", answer="It is.")
    assert len(shots(itself, [itself, *RETAINED[: 2 * SHOTS - 1]], seed=0)) == 1


def test_shots_read_as_the_template_shows_questions() -> None:
    pairs = RETAINED[:2]
    text = with_shots(TEMPLATE, pairs, "Who?")
    assert TEMPLATE.replace("{question}", text) == (
        "Question: Where is book 0?\nAnswer: In room 0.\n\n"
        "Question: Where is book 1?\nAnswer: In room 1.\n\n"
        "Question: Who?\nAnswer: "
    )
    bare = with_shots("{question}", pairs[:1], "Who?")
    assert bare == "Where is book 0?\nIn room 0.\n\nWho?"
    assert with_shots(TEMPLATE, (), "Who?") == "Who?"


def space(**changes: object) -> Space:
    question = Query.original(PROMPT)
    texts = [question, *(replace(question, text=f"{i}?", source="rules") for i in range(4))]
    given: dict[str, object] = {
        "texts": tuple(texts),
        "shots": ((), tuple(RETAINED[:3])),
        "openers": ("", "Sure,", "Yes,"),
        "decodings": (Decoding(), Decoding(temperature=0.5)),
        "template": TEMPLATE,
    }
    return Space(**{**given, **changes})  # type: ignore[arg-type]


def anything(query: Query, decoding: Decoding) -> bool:
    return True


def changes(variant: Variant) -> tuple[bool, ...]:
    query = variant.query
    decoding = variant.decoding != Decoding()
    return query.source != "original", bool(variant.shots), bool(query.prefix), decoding


def test_the_prompt_as_it_is_comes_first_then_others_each_once() -> None:
    every = variants(space(), 10_000, 0, anything)
    assert len(every) == len(set(every)) == 5 * 2 * 3 * 2
    assert every[0].query.text == PROMPT.question
    assert changes(every[0]) == (False, False, False, False)
    few = variants(space(), 7, 0, anything)
    assert few == every[:7]
    assert variants(space(), 7, 1, anything) != few
    by_id = {v.query.id: v.query for v in every}
    assert len(by_id) == 5 * 2 * 3
    assert all(by_id[v.query.id] == v.query for v in every)
    shown = next(v for v in every if v.shots)
    assert shown.shots == ("r0", "r1", "r2")
    assert shown.query.text.startswith("Where is book 0?\nAnswer: In room 0.")
    alone = space(texts=space().texts[:1], shots=((),), openers=("",), decodings=(Decoding(),))
    assert variants(alone, 9, 0, anything) == (alone.variant((0, 0, 0, 0)),)


def test_each_axis_is_left_alone_half_of_the_time() -> None:
    rewritten = (replace(space().texts[1], text=f"{i}") for i in range(50))
    many = space(texts=(space().texts[0], *rewritten))
    seconds = Counter(changes(variants(many, 2, seed, anything)[1]) for seed in range(600))
    assert len(seconds) == 2**4 - 1  # all but leaving everything
    assert all(20 < count < 65 for count in seconds.values())  # 40 on average


def test_what_does_not_fit_makes_room_for_others() -> None:
    found = variants(space(), 20, 0, lambda query, decoding: "book" not in query.text)
    assert len(found) == 20
    assert not any(variant.shots for variant in found)
    none = variants(space(), 20, 0, lambda query, decoding: False)
    assert len(none) == 1


def test_built_in_questions_have_shots() -> None:
    benchmark = load_benchmark("fictitious")
    for prompt in benchmark.prompts:
        assert len(shots(prompt, benchmark.split("retain"), 0)) == PREFIXES
