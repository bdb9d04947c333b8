"""Engines and scorers that keep every promise pass; the report names any that breaks one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from leakbound.errors import InputError
from leakbound.scorers import make_scorer
from leakbound.testing import FakeEngine, FakeScorer, check_engine, check_scorer
from leakbound.types import Completion, Decoding, Draws, Failure, Prompt, Query, Sample

QUERIES = [Query(id=f"q{i}", prompt_id=f"q{i}", text=f"who {i}") for i in range(2)]
OUTPUTS = {
    "q0": {"it is Ann": 0.5, "Bob wrote all of it": 0.2, "no": 0.2, "": 0.1},
    "q1": {"no idea at all": 0.7, "it was Ann": 0.3},
}

Decode = Callable[[Decoding], Decoding]
Key = Callable[[Draws], Draws]
Change = Callable[[Completion, Draws], Completion]


def lying(
    lie: Decode = lambda requested: requested,
    forget: Key = lambda draws: draws,
    change: Change = lambda completion, draws: completion,
) -> type[FakeEngine]:
    """Return an engine that draws under other settings than it reports.

    It applies `change` to every completion.
    """

    class Lying(FakeEngine):
        def generate(
            self, queries: Sequence[Query], decoding: Decoding, draws: Draws
        ) -> Iterator[Sample | Failure]:
            for got in super().generate(queries, lie(decoding), forget(draws)):
                if isinstance(got, Sample):
                    seen = tuple(change(each, draws) for each in got.completions)
                    yield replace(got, decoding=decoding, completions=seen)
                else:
                    yield got

    return Lying


def warm(requested: Decoding) -> Decoding:
    return requested if requested.greedy else replace(requested, temperature=1.0)


IGNORES_CHUNK = lying(
    forget=lambda draws: replace(draws, first_chunk=0),
    change=lambda each, draws: replace(each, chunk=each.chunk + draws.first_chunk),
)
# Correct, without token ids and probabilities, as a server is.
SAYS_NOTHING_OF_TOKENS = lying(
    change=lambda each, _: Completion(
        answer=each.answer, token_ids=None, count=each.count, chunk=each.chunk
    )
)


class IgnoresQuery(FakeEngine):
    def generate(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws
    ) -> Iterator[Sample | Failure]:
        own = draws.draws_per_query
        for query in queries:
            same = replace(query, id="q0")
            mine = replace(draws, draws_per_query={"q0": own[query.id]} if own else {})
            for got in super().generate([same], decoding, mine):
                yield replace(got, query=query)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"finish": "eos"}, r"`finish` must be one of stop, .*, got 'eos'"),
        ({"tokens": 99}, r"`tokens` must be \d or None, got 99"),
        ({"thought": " "}, r"a thought must have text, or be None"),
    ],
)
def test_the_fields_of_an_output_are_checked(how: dict[str, Any], message: str) -> None:
    spoils = lying(change=lambda each, _: replace(each, **how))
    with pytest.raises(InputError, match=message):
        check_engine(spoils(OUTPUTS), QUERIES)


def test_an_honest_engine_without_token_ids_passes() -> None:
    check_engine(SAYS_NOTHING_OF_TOKENS(OUTPUTS), QUERIES)


def test_a_fake_engine_forces_what_it_can_say() -> None:
    wanted = [(QUERIES[0], text) for text in ("it is Ann", "what nobody says")]
    shown, other = FakeEngine(OUTPUTS).force(wanted, Decoding())
    assert shown.logprob == pytest.approx(math.log(0.5))
    assert other is None


@pytest.mark.parametrize("seed", range(4))
def test_no_false_alarm_under_any_distribution(seed: int) -> None:
    rng = np.random.default_rng(seed)
    texts = ["red sky", "red sea", "blue", "green sky at night", ""]
    laws = {q.id: dict(zip(texts, rng.dirichlet([4, 3, 2, 1, 1]), strict=True)) for q in QUERIES}
    exact = {q: {t: float(p) for t, p in law.items()} for q, law in laws.items()}
    check_engine(FakeEngine(exact), QUERIES)


LIES: list[tuple[str, Decode]] = [
    ("temperature", warm),
    ("temperature", lambda d: replace(d, temperature=d.temperature or 1.0)),
    ("temperature", lambda d: replace(d, temperature=d.temperature**1.5)),
    ("top_p", lambda d: replace(d, top_p=1.0)),
    ("top_k", lambda d: replace(d, top_k=0)),
    ("max_new_tokens", lambda d: replace(d, max_new_tokens=64)),
]


@pytest.mark.parametrize(
    ("engine", "named"),
    [
        *((lying(lie), f"`{name}` must be as requested") for name, lie in LIES),
        (lying(forget=lambda d: replace(d, seed=0)), "draws must change if the seed"),
        (lying(forget=lambda d: replace(d, purpose="score")), "draws must change if the purpose"),
        (IGNORES_CHUNK, "draws with the same seed|draws must change if the chunk"),
        (IgnoresQuery, "draws must change if the query"),
    ],
)
def test_an_engine_that_lies_is_named_for_it(engine: type[FakeEngine], named: str) -> None:
    with pytest.raises(InputError, match=f"{engine.__name__} fails a check: ({named})"):
        check_engine(engine(OUTPUTS), QUERIES)


def test_draws_that_show_nothing_are_refused() -> None:
    even = {"q0": {"red": 0.5, "blue": 0.5}, "q1": {"red": 0.25, "blue": 0.25, "sea": 0.5}}
    with pytest.raises(InputError, match="the draws do not show the temperature"):
        check_engine(FakeEngine({"q0": even["q0"]}), QUERIES[:1])
    check_engine(FakeEngine(even), QUERIES)
    sure = {"q0": {"red": 0.999, "blue": 0.001}}
    with pytest.raises(InputError, match="nearly all answers to each query"):
        check_engine(FakeEngine(sure), QUERIES[:1])
    with pytest.raises(InputError, match=r"query 'q0' must be drawn, got: .* logits are NaN"):
        check_engine(FakeEngine(OUTPUTS, broken=["q0"]), QUERIES)


PROMPT = Prompt(id="q", question="Who?", answer="Ann", keywords=("Ann",))


def test_a_table_of_scores_is_a_scorer() -> None:
    scorer = FakeScorer({"Ann": 1.0, "Anna": 0.5, "?": None})
    assert scorer.score(["Ann", "?", "Bob"], PROMPT) == [1.0, None, 0.0]
    check_scorer(scorer, PROMPT, texts=["Anna", "?"])
    check_scorer(Arrays({"Ann": 1.0, "Anna": 0.7}), PROMPT, texts=["Anna"])  # of float32
    check_scorer(make_scorer("keyword"), PROMPT, texts=["Anna"], make=make_scorer)


@dataclass(frozen=True)
class Broken(FakeScorer):
    """Scores depend on the number or order of the texts."""

    by: ClassVar[str] = "company"

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        return [1.0 if text == "Ann" or len(texts) > 1 else 0.0 for text in texts]


class Arrays(FakeScorer):
    def score(self, texts: Sequence[str], prompt: Prompt | str) -> Any:
        return np.array(FakeScorer.score(self, texts, prompt), dtype=np.float32)


class Bounded(FakeScorer):
    __slots__ = ()

    def bounds(self, prefix: str, prompt: Prompt | str) -> tuple[float, float]:
        return (0.0, 0.5)


@pytest.mark.parametrize(
    ("scorer", "named"),
    [
        (FakeScorer({"Ann": 0.9}), "a full leak must score 1, got 0.9 for 'Ann'"),
        (FakeScorer({"Ann": 1.0, "x": 1.5}), "must"),
        (FakeScorer({"Ann": 1.0, "x": 0.5}, binary=True), "binary"),
        (Bounded({"Ann": 1.0}), "`bounds` must be valid"),
        (Broken({}), "must score the same in any batch"),
    ],
)
def test_a_scorer_that_breaks_a_promise_is_named(scorer: FakeScorer, named: str) -> None:
    with pytest.raises(InputError, match=named):
        check_scorer(scorer, PROMPT, texts=["x", "y"])


def test_what_is_no_scorer_is_refused_with_what_it_lacks() -> None:
    with pytest.raises(InputError, match="with `name`, `binary` and `score`, got <obj"):
        check_scorer(object(), PROMPT)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="`score`, got <class"):
        check_scorer(Broken, PROMPT)  # type: ignore[arg-type]


def test_a_name_that_gives_another_scorer_is_refused() -> None:
    with pytest.raises(InputError, match="must equal the scorer"):
        check_scorer(FakeScorer({"Ann": 1.0}), PROMPT, make=lambda name: make_scorer("keyword"))
