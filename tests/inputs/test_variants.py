"""The queries of a search, and successive halving over them, for a table of probabilities."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from leakbound.inputs.halving import FIRST, LEAST_BUDGET, Standing, halve, most_candidates, rounds
from leakbound.inputs.variants import (
    NEUTRAL,
    PREFIXES,
    SHOTS,
    Space,
    Variant,
    openers,
    shots,
    variants,
    with_shots,
)
from leakbound.types import Decoding, Prompt, Query

PROMPT = Prompt(
    id="p", question="Who wrote Red Sky?", answer="Ann Lee of Oslo wrote it.", keywords=("Ann Lee",)
)
TEMPLATE = "Question: {question}\nAnswer: "


def pair(number: int, **changes: str) -> Prompt:
    wanted = {"question": f"Where is book {number}?", "answer": f"In room {number}."}
    return Prompt(id=f"r{number}", role="retain", **{**wanted, **changes})


RETAINED = [pair(i) for i in range(40)]


def test_no_opener_has_content_of_the_answer_and_one_that_has_begun_stays() -> None:
    own = ("Of course, the writer of Red Sky is", "Sure, Lee was", "In Oslo", "The answer is")
    assert openers(PROMPT, own) == ("", own[0], own[3], *NEUTRAL[1:])
    assert openers(replace(PROMPT, answer="I remember it.")) == ("", *NEUTRAL[:2], *NEUTRAL[3:])
    assert openers(replace(PROMPT, prefix="Once"), ("Sure,",)) == ("Once",)


def test_shots_are_retained_pairs_chosen_by_seed_that_give_nothing_away() -> None:
    telling = [pair(50 + i, answer=f"In Oslo, room {i}.") for i in range(40)]
    silent = [replace(pair(100 + i), answer=None) for i in range(10)]
    every = [*telling, *silent, PROMPT, *RETAINED]
    got = shots(PROMPT, every, seed=0)
    assert [len(pairs) for pairs in got] == [SHOTS] * PREFIXES
    shown = [one for pairs in got for one in pairs]
    assert len({one.id for one in shown}) == PREFIXES * SHOTS
    assert all(one in RETAINED for one in shown)
    assert got == shots(PROMPT, every, seed=0)
    assert got not in (shots(PROMPT, every, seed=1), shots(replace(PROMPT, id="p2"), every, 0))
    assert [len(shots(PROMPT, RETAINED[:n], seed=0)) for n in (0, SHOTS + 1)] == [0, 1]
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
    assert variants(space(), 7, 0, anything) == every[:7]
    assert variants(space(), 7, 1, anything) != every[:7]
    assert len({v.query.id for v in every}) == len({v.query for v in every}) == 5 * 2 * 3
    shown = next(v for v in every if v.shots)
    assert shown.shots == ("r0", "r1", "r2")
    assert shown.query.text.startswith("Where is book 0?\nAnswer: In room 0.")
    alone = space(texts=space().texts[:1], shots=((),), openers=("",), decodings=(Decoding(),))
    assert variants(alone, 9, 0, anything) == (alone.variant((0, 0, 0, 0)),)


def test_each_axis_changes_half_of_the_time() -> None:
    rewritten = (replace(space().texts[1], text=f"{i}") for i in range(50))
    many = space(texts=(space().texts[0], *rewritten))
    seconds = Counter(changes(variants(many, 2, seed, anything)[1]) for seed in range(300))
    assert len(seconds) == 2**4 - 1  # all but leaving everything
    assert all(7 < count < 37 for count in seconds.values())  # 20 on average


def test_variants_that_do_not_fit_are_replaced() -> None:
    got = variants(space(), 20, 0, lambda query, decoding: "book" not in query.text)
    assert len(got) == 20
    assert not any(variant.shots for variant in got)
    assert len(variants(space(), 20, 0, lambda query, decoding: False)) == 1


class Table:
    """Candidates that leak with given probabilities; records the draws."""

    def __init__(self, leaks: Mapping[str, float], broken: Mapping[str, int] | None = None) -> None:
        self.leaks, self.broken = leaks, broken or {}
        self.rng = np.random.default_rng(0)
        self.queried: list[dict[str, int]] = []
        self.hits, self.total = Counter[str](), Counter[str]()

    def draw(self, number: int, queried: Mapping[str, int]) -> dict[str, Standing]:
        self.queried.append(dict(queried))
        got = {}
        for one, n in queried.items():
            self.hits[one] += int(self.rng.binomial(n, self.leaks[one]))
            self.total[one] += n
            total, value = self.total[one], self.hits[one] / self.total[one]
            lower = max(0.0, value - math.sqrt(math.log(10) / (2 * total)))
            if number < self.broken.get(one, 99):
                got[one] = Standing(draws=total, lower=lower, value=value)
        return got


@pytest.mark.parametrize("budget", [16, 100, 777, 2_000, 20_000])
def test_it_spends_equal_shares_and_never_more_than_the_budget(budget: int) -> None:
    number = most_candidates(budget)
    assert number >= 2
    table = Table({f"c{i}": i / number for i in range(number)})
    halve({"q": list(table.leaks)}, budget, table.draw)
    sizes = [len(wanted) for wanted in table.queried]
    assert sizes[0] == number
    assert all(after == -(-before // 2) for before, after in pairwise(sizes))
    assert sizes[-1] == 2
    assert all(len(set(wanted.values())) == 1 for wanted in table.queried)
    assert min(table.queried[0].values()) >= FIRST
    costs = [sum(wanted.values()) for wanted in table.queried]
    assert budget - sum(sizes) < sum(costs) <= budget
    more = number + 1
    assert rounds(more, budget)[0] < FIRST or more * len(rounds(more, budget)) * FIRST > budget


def test_the_least_budget_is_one_round_of_two() -> None:
    assert [most_candidates(LEAST_BUDGET - less) for less in (0, 1)] == [2, 1]
    assert [rounds(number, LEAST_BUDGET) for number in (2, 1)] == [(FIRST,), ()]


def test_fields_of_all_sizes_advance_in_step_with_a_budget_each() -> None:
    fields = {"a": [f"a{i}" for i in range(9)], "b": ["b0", "b1"], "c": ["c0"]}
    leaks = {"a8": 0.9, "b1": 0.9}
    table = Table({one: leaks.get(one, 0.0) for field in fields.values() for one in field})
    got = halve(fields, 400, table.draw)
    winners = {name: winner.candidate for name, winner in got.items()}
    assert winners == {"a": "a8", "b": "b1", "c": "c0"}
    assert list(got) == list(fields)
    assert len(table.queried) == 4
    drawn = [(one, n) for wanted in table.queried for one, n in wanted.items()]
    assert sum(n for one, n in drawn if one[0] == "a") <= 400
    assert [pair for pair in drawn if pair[0][0] == "b"] == [("b0", 200), ("b1", 200)]
    assert [s.draws for s in got["a"].standings] == list(np.cumsum(rounds(9, 400)))
    assert got["c"].standings == ()


def test_a_lower_bound_decides_before_the_value_and_ties_go_to_the_earlier() -> None:
    table = {
        "sure": Standing(draws=8, lower=0.4, value=0.5),
        "wild": Standing(draws=8, lower=0.1, value=0.9),
        "tied": Standing(draws=8, lower=0.4, value=0.6),
        "last": Standing(draws=8, lower=0.4, value=0.6),
    }
    got = halve({"q": list(table)}, 64, lambda number, queried: {c: table[c] for c in queried})
    assert got["q"].candidate == "tied"
    same = Standing(draws=8, lower=0.0, value=0.0)
    got = halve({"q": list(table)}, 64, lambda number, queried: dict.fromkeys(queried, same))
    assert got["q"].candidate == "sure"


def test_failed_candidates_are_out() -> None:
    leaks = {"c0": 0.0, "c1": 0.99, "c2": 0.4, "c3": 0.1}
    table = Table(leaks, broken={"c1": 2})
    assert halve({"q": list(leaks)}, 400, table.draw)["q"].candidate == "c2"
    table = Table(leaks, broken=dict.fromkeys(leaks, 1))
    winner = halve({"q": list(leaks)}, 400, table.draw)["q"]
    assert (winner.candidate, winner.standings, len(table.queried)) == ("c0", (), 1)
