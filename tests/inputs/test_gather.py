from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, get_args

import pytest

from fake_models import FakeEmbed
from leakbound.errors import IncompleteError, InputError
from leakbound.inputs import (
    Criterion,
    Filters,
    choose,
    evidence,
    gather,
    select,
)
from leakbound.inputs.sources import BenchmarkInputs
from leakbound.types import Completion, Decoding, Prompt, Query, Sample

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


def test_each_filter_removes_texts_with_a_reason() -> None:
    (accepted,) = gather(BenchmarkInputs(), [prompt(*TEXTS)])
    assert accepted.queries == (GOOD,)
    reasons = {removed.text: removed.reason for removed in accepted.rejected}
    assert reasons == {text: reason for text, reason in TEXTS.items() if reason}
    assert accepted.removed == Counter(filter(None, TEXTS.values()))


def test_without_filters_only_empty_texts_and_repeats_are_removed() -> None:
    (accepted,) = gather(BenchmarkInputs(), [prompt(*TEXTS)], filters=Filters(content=False))
    assert accepted.removed == {"empty": 1, "the question": 1, "duplicate": 1}
    assert len(accepted.queries) == len(TEXTS) - 3


def test_draws_from_a_distribution_keep_their_repeats() -> None:
    texts = (GOOD, GOOD, GOOD.lower(), QUESTION)
    (drawn,) = gather(Listed(), [prompt(*texts)])
    assert drawn.queries == texts[:3]
    assert drawn.removed == {"the question": 1}
    (listed,) = gather(Listed(finite=True), [prompt(*texts)])
    assert listed.queries == (GOOD,)


@pytest.mark.parametrize(
    ("paraphrases", "changes", "removed"),
    [
        ((), {}, {}),
        ((QUESTION, ANSWER, QUESTION), {}, {"the question": 2, "the answer": 1}),
        (("Is Ada Vale, 1953, Ron?",), {"answer": None, "keywords": ("Ron",)}, {"answer words": 1}),
        (("Was Ada Vale of 1953 from Velmora?",), {"answer": None}, {}),
        # an unfit text makes the next no duplicate
        (("Where?", "Where?"), {}, {"facts lost": 2}),
    ],
)
def test_texts_are_removed_from_their_own_prompt(paraphrases, changes, removed) -> None:
    mine = replace(prompt(*paraphrases), **changes)
    accepted, other = gather(BenchmarkInputs(), [mine, prompt(GOOD, id="b")])
    assert accepted.removed == removed
    assert len(accepted.queries) == len(paraphrases) - sum(removed.values())
    assert (other.prompt_id, other.queries) == ("b", (GOOD,))


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
    assert embed.queried == [[QUESTION, near, edge, far]]
    (strict,) = gather(Listed(), [prompt(*texts)], filters=Filters(embed=embed, similarity=0.9))
    assert strict.queries == (near, near)


def test_invalid_vectors_are_refused() -> None:
    embed = FakeEmbed({})
    (accepted,) = gather(Listed(), [prompt()], filters=Filters(embed=embed))
    assert (accepted.queries, embed.queried) == ((), [])
    none = r"In which town.*'fake'.*no cosine similarity"
    vectors = dict.fromkeys([(0.0, 0.0), (math.nan, 1.0), (math.inf, 1.0)], none)
    for own, shown in [*vectors.items(), (0, r"one vector per text, got shape \(2,\)")]:
        question = (1, 0) if isinstance(own, tuple) else 1
        embed = FakeEmbed({QUESTION: question, GOOD: own})  # type: ignore[dict-item]
        with pytest.raises(InputError, match=shown):
            gather(Listed(), [prompt(GOOD)], filters=Filters(embed=embed))


Answer = tuple[int, float, int]
"""Count, log-probability, number of tokens."""


def completions(*answers: Answer) -> tuple[Completion, ...]:
    return tuple(
        Completion(answer="", token_ids=(7,) * length, count=count, model_logprob=logprob)
        for count, logprob, length in answers
    )


def query(id: str, prompt: str = "p") -> Query:
    source = "original" if id == prompt else "rules"
    return Query(id=id, prompt_id=prompt, text=id, source=source)  # type: ignore[arg-type]


def sample(id: str, *answers: Answer, prompt: str = "p") -> Sample:
    return Sample(query=query(id, prompt), decoding=Decoding(), completions=completions(*answers))


def ids(queries: Sequence[Query]) -> list[str]:
    return [q.id for q in queries]


def test_probabilities_are_averaged_over_draws() -> None:
    """Counts equal copies, and tiny probabilities do not vanish."""
    answers = completions((3, math.log(0.2), 4), (1, math.log(0.6), 2))
    copies = completions(*[(1, math.log(0.2), 4)] * 3, (1, math.log(0.6), 2))
    mean = (3 * math.log(0.2) + math.log(0.6)) / 4
    per_token = (3 * math.log(0.2) / 4 + math.log(0.6) / 2) / 4
    wanted = [math.log((3 * 0.2 + 0.6) / 4), mean, per_token]
    for same in (answers, copies):
        got = [evidence(same, criterion) for criterion in get_args(Criterion)]
        assert got == pytest.approx(wanted, abs=1e-14)
    assert evidence(answers) == evidence(answers, "mean_prob")
    value = evidence(completions((1, -2000.0, 200), (1, -2000.0, 200)))
    assert value == pytest.approx(-2000.0, abs=1e-12)
    chosen = choose([sample("p", (2, -2000.0, 9)), sample("x", (2, -2001.0, 9))])
    assert ids(chosen.kept) == ["p"]


def test_texts_answered_with_more_confidence_are_kept() -> None:
    answers: dict[str, list[Answer]] = {
        "p": [(4, -3.0, 1)],
        "less": [(4, -3.001, 1)],
        "equal": [(4, -3.0, 1)],
        "more": [(3, -9.0, 1), (1, -0.1, 1)],
    }
    chosen = choose([sample(id, *own) for id, own in answers.items()])
    assert ids(chosen.kept) == ["p", "equal", "more"]
    assert set(chosen.values) == set(answers)
    assert chosen.values["p"] == pytest.approx(-3.0)
    assert (chosen.prompt_id, chosen.criterion, chosen.draws) == ("p", "mean_prob", 4)


def test_the_likeliest_answer_rules_the_mean_probability_only() -> None:
    samples = [sample("p", (4, -3.0, 3)), sample("x", (3, -9.0, 18), (1, -0.1, 1))]
    assert [len(choose(samples, criterion).kept) for criterion in get_args(Criterion)] == [2, 1, 2]


def test_selection_is_by_prompt_in_one_call() -> None:
    queries = [query("x"), query("p"), query("y"), query("r", "r"), query("z", "r")]
    surely = {"p": -2.0, "x": -1.0, "y": -3.0, "r": -9.0, "z": -8.0}
    calls = []

    def draw(queried: Sequence[Query], m: int, seed: int) -> list[Sample]:
        calls.append((list(queried), m, seed))
        return [sample(q.id, (m, surely[q.id], 1), prompt=q.prompt_id) for q in reversed(queried)]

    got = select(queries, draw, draws=8, seed=3)
    assert calls == [(queries, 8, 3)]
    kept = {id: ids(chosen.kept) for id, chosen in got.items()}
    assert kept == {"p": ["p", "x"], "r": ["r", "z"]}
    assert got["r"].draws == 8


def test_unusable_answers_and_missing_draws_are_refused() -> None:
    def one(queried: Sequence[Query], m: int, seed: int) -> list[Sample]:
        return [sample("p", (m, -1.0, 1))]

    (bare,) = completions((1, -1.0, 1))
    lacking = replace(sample("x", (3, -1.0, 1)), missing=1)
    unlikely, spelt = replace(bare, model_logprob=None), replace(bare, token_ids=None)
    refused: list[tuple[type[Exception], str, Callable[[], object]]] = [
        (InputError, "an answer without a log-probability", partial(evidence, [unlikely])),
        (InputError, "without token ids", partial(evidence, [spelt], "mean_logprob_per_token")),
        (IncompleteError, "query 'x'", partial(select, [query("p"), query("x")], one)),
        (
            IncompleteError,
            "1 of 4 selection draws of query 'x'",
            partial(choose, [sample("p", (4, -1.0, 1)), lacking]),
        ),
    ]
    for kind, message, call in refused:
        with pytest.raises(kind, match=message):
            call()
