from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from leakbound.errors import IncompleteError, InputError
from leakbound.inputs import choose, evidence, select
from leakbound.types import Completion, Decoding, Query, Sample

Answer = tuple[int, float, int]
"""Count, log-probability, number of tokens."""


def completions(*answers: Answer) -> tuple[Completion, ...]:
    return tuple(
        Completion(text="", token_ids=(7,) * length, count=count, model_logprob=logprob)
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
    answers = completions((3, math.log(0.2), 4), (1, math.log(0.6), 2))
    assert evidence(answers) == pytest.approx(math.log((3 * 0.2 + 0.6) / 4), abs=1e-14)
    mean = (3 * math.log(0.2) + math.log(0.6)) / 4
    assert evidence(answers, "mean_logprob") == pytest.approx(mean, abs=1e-14)
    per_token = (3 * math.log(0.2) / 4 + math.log(0.6) / 2) / 4
    assert evidence(answers, "mean_logprob_per_token") == pytest.approx(per_token, abs=1e-14)


def test_counts_say_the_same_as_copies() -> None:
    for criterion in ("mean_prob", "mean_logprob", "mean_logprob_per_token"):
        counted = evidence(completions((3, -4.0, 2), (2, -1.0, 5)), criterion)  # type: ignore[arg-type]
        spelt = evidence(
            completions(*[(1, -4.0, 2)] * 3, *[(1, -1.0, 5)] * 2),
            criterion,  # type: ignore[arg-type]
        )
        assert counted == pytest.approx(spelt, abs=1e-14)


def test_tiny_probabilities_do_not_vanish() -> None:
    value = evidence(completions((1, -2000.0, 200), (1, -2000.0, 200)))
    assert value == pytest.approx(-2000.0, abs=1e-12)
    chosen = choose([sample("p", (2, -2000.0, 9)), sample("x", (2, -2001.0, 9))])
    assert ids(chosen.kept) == ["p"]


def test_what_is_answered_as_surely_is_kept() -> None:
    chosen = choose(
        [
            sample("p", (4, -3.0, 1)),
            sample("less", (4, -3.001, 1)),
            sample("equal", (4, -3.0, 1)),
            sample("more", (3, -9.0, 1), (1, -0.1, 1)),
        ]
    )
    assert ids(chosen.kept) == ["p", "equal", "more"]
    assert set(chosen.values) == {"p", "less", "equal", "more"}
    assert chosen.values["p"] == pytest.approx(-3.0)
    assert (chosen.prompt_id, chosen.criterion, chosen.draws) == ("p", "mean_prob", 4)


def test_the_criteria_differ() -> None:
    """The likeliest answer alone rules the mean probability, not the mean log-probability."""
    samples = [sample("p", (4, -3.0, 3)), sample("x", (3, -9.0, 18), (1, -0.1, 1))]
    kept = {
        criterion: len(choose(samples, criterion).kept)  # type: ignore[arg-type]
        for criterion in ("mean_prob", "mean_logprob", "mean_logprob_per_token")
    }
    assert kept == {"mean_prob": 2, "mean_logprob": 1, "mean_logprob_per_token": 2}


def test_selection_goes_prompt_by_prompt_in_one_call() -> None:
    queries = [query("x"), query("p"), query("y"), query("r", "r"), query("z", "r")]
    surely = {"p": -2.0, "x": -1.0, "y": -3.0, "r": -9.0, "z": -8.0}
    calls = []

    def draw(asked: Sequence[Query], m: int, seed: int) -> list[Sample]:
        calls.append((list(asked), m, seed))
        return [sample(q.id, (m, surely[q.id], 1), prompt=q.prompt_id) for q in reversed(asked)]

    found = select(queries, draw, draws=8, seed=3)
    assert calls == [(queries, 8, 3)]
    assert {id: ids(chosen.kept) for id, chosen in found.items()} == {
        "p": ["p", "x"],
        "r": ["r", "z"],
    }
    assert found["r"].draws == 8


def test_what_is_missing_is_said() -> None:
    def one(asked: Sequence[Query], m: int, seed: int) -> list[Sample]:
        return [sample("p", (m, -1.0, 1))]

    with pytest.raises(IncompleteError, match="query 'x'"):
        select([query("p"), query("x")], one)
    lacking = replace(sample("x", (3, -1.0, 1)), missing=1)
    with pytest.raises(IncompleteError, match="1 of 4 selection draws of query 'x'"):
        choose([sample("p", (4, -1.0, 1)), lacking])


def test_bad_input_is_refused() -> None:
    def unasked(asked: Sequence[Query], m: int, seed: int) -> list[Sample]:
        raise AssertionError

    with pytest.raises(InputError, match="at least 1, got 0"):
        select([query("p")], unasked, draws=0)
    for wrong in ([query("x")], [query("p"), query("p")]):
        with pytest.raises(InputError, match="'p' needs its original question once"):
            select(wrong, unasked)
    with pytest.raises(InputError, match=r"criterion.*'best'"):
        choose([sample("p", (1, -1.0, 1))], "best")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="at least one answer"):
        evidence(())
    (bare,) = completions((1, -1.0, 1))
    with pytest.raises(InputError, match="an answer without one"):
        evidence([replace(bare, model_logprob=None)])
    with pytest.raises(InputError, match="without token ids"):
        evidence([replace(bare, token_ids=None)], "mean_logprob_per_token")
