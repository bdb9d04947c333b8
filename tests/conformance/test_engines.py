"""Promises of every engine; a new engine adds a row, and a second one if it explores."""

from __future__ import annotations

import atexit
import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pytest
import torch
from transformers import LlamaForCausalLM, MambaConfig, MambaForCausalLM

import fake_vllm
from leakbound import engines
from leakbound.engines import Prompting, open_engine
from leakbound.engines.hf import TransformersEngine
from leakbound.testing import FakeEngine, check_engine
from leakbound.types import (
    Decoding,
    Draws,
    Effort,
    Event,
    Exploration,
    Explores,
    Generate,
    Query,
    Sample,
)
from misbehaving import LISTED, chat_server, honest
from tiny import tiny_llama, tiny_loaded, tiny_model_folder, tiny_tokenizer

QUERIES = [
    Query(id=f"q{i}", prompt_id=f"q{i}", text=text)
    for i, text in enumerate(["who wrote red", "sea", "who wrote blue sky"])
]
DECODING = Decoding(max_new_tokens=4)


def transformers_engine(model: Any = None) -> TransformersEngine:
    return TransformersEngine(
        tiny_loaded(model), Prompting(template="Question: {question} Answer: ")
    )


@cache
def peaked_llama(tied: bool = True) -> LlamaForCausalLM:
    return tiny_llama(len(tiny_tokenizer()), initializer_range=0.3, tie_word_embeddings=tied)


@cache
def state_space() -> MambaForCausalLM:
    """A model without a cache that branches."""
    config = MambaConfig(vocab_size=len(tiny_tokenizer()), hidden_size=16, num_hidden_layers=1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return MambaForCausalLM(config).eval()


def fake_engine() -> FakeEngine:
    """Every text of at most three words; longer ones are rarer, and some are more likely."""
    words = ["who", "red", "blue", "green", "sky", "sea", "Ann", "Bob"]
    texts = [" ".join(text) for n in range(4) for text in product(words, repeat=n)]
    weights = np.random.default_rng(0).exponential(size=len(texts)) ** 2
    weights /= [8.0 ** len(text.split()) for text in texts]
    law = dict(zip(texts, (weights / weights.sum()).tolist(), strict=True))
    return FakeEngine({query.id: law for query in QUERIES})


@cache
def address() -> str:
    """Return the address of a server of words that runs as long as the tests."""
    words = {"red": 0.5, "sea": 0.2, "Ann": 0.15, "Bob": 0.1, "sky": 0.05}
    law = {f"{a} {b}": p * q for a, p in words.items() for b, q in words.items()}
    up = ExitStack()
    atexit.register(up.close)
    return up.enter_context(chat_server(honest({"": law}), LISTED)).url


@cache
def model_folder() -> Path:
    return tiny_model_folder(Path(mkdtemp()), initializer_range=0.3)


def vllm_engine() -> Generate:
    return open_engine(
        f"vllm:{model_folder()}", Prompting(template="Question: {question} Answer: ")
    )


Make = Callable[[], Generate]
ENGINES: dict[str, Make] = {
    "transformers, tied": lambda: transformers_engine(peaked_llama()),
    "transformers, untied": lambda: transformers_engine(peaked_llama(tied=False)),
    "transformers, no cache": lambda: transformers_engine(state_space()),
    "vllm, faked": vllm_engine,
    "openai, served": lambda: open_engine(f"openai:{address()}#m?n=64&probe=off", Prompting()),
    "fake": fake_engine,
}


def test_every_engine_has_a_row() -> None:
    assert engines.ENGINES.keys() <= {row.partition(",")[0] for row in ENGINES}


def rows_but(*slow: str) -> list[Any]:
    """Return the rows as parameters of `make`; some of them are slow."""
    assert ENGINES.keys() >= set(slow)
    return [
        pytest.param(make, id=row, marks=[pytest.mark.slow] * (row in slow))
        for row, make in ENGINES.items()
    ]


@pytest.fixture(params=rows_but("openai, served"))
def make(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Make:
    fake_vllm.installed(monkeypatch)
    made: Make = request.param
    return made


def draw(engine: Generate, draws: Draws, decoding: Decoding = DECODING) -> dict[str, Sample]:
    got = list(engine.generate(QUERIES, decoding, draws))
    assert all(isinstance(s, Sample) for s in got)
    return {s.query.id: s for s in got if isinstance(s, Sample)}


def answers(sample: Sample) -> list[tuple[str, int]]:
    return [(completion.answer, completion.count) for completion in sample.completions]


@pytest.mark.parametrize("make", rows_but("openai, served", "vllm, faked"), indirect=True)
def test_every_promise_is_kept(make: Make) -> None:
    check_engine(make(), QUERIES, max_new_tokens=4)


def test_keyed_draws_do_not_depend_on_other_queries(make: Make) -> None:
    own = {"q0": 3, "q1": 12, "q2": 1}
    together = draw(make(), Draws(sizes=(12,), first_chunk=2, draws_per_query=own))
    for query in QUERIES:
        (alone,) = make().generate([query], DECODING, Draws(sizes=(own[query.id],), first_chunk=2))
        assert isinstance(alone, Sample)
        assert answers(alone) == answers(together[query.id])


def test_the_same_engine_has_the_same_fingerprint(make: Make) -> None:
    assert make().fingerprint == make().fingerprint


EXPLORERS: dict[str, Callable[[], Any]] = {
    "transformers, float64": lambda: transformers_engine(deepcopy(peaked_llama()).double()),
    **{row: ENGINES[row] for row in ("transformers, no cache", "fake")},
}
EFFORTS = [Effort(mode=mode, forwards=40) for mode in ("exact", "hybrid", "auto")]


@pytest.fixture(scope="module", params=EXPLORERS.values(), ids=EXPLORERS.keys())
def explorer(request: pytest.FixtureRequest) -> Explores:
    made: Explores = request.param()
    return made


def says_red(query: Query, events: Sequence[Event]) -> list[tuple[float, float]]:
    """A word settles a score once another word follows it."""
    return [
        (float("red" in e.answer),) * 2 if e.ended else (float("red " in e.answer), 1.0)
        for e in events
    ]


def explore(engine: Explores, effort: Effort, decoding: Decoding = DECODING) -> list[Exploration]:
    got = list(engine.explore(QUERIES, decoding, effort, says_red))
    assert {each.query for each in got} == set(QUERIES)
    return [each for each in got if isinstance(each, Exploration)]


def inside(ids: tuple[int, ...], events: Sequence[Event]) -> list[Event]:
    """Return the events that contain an output with these ids."""
    return [event for event in events if ids[: len(event.token_ids)] == event.token_ids]


@pytest.mark.parametrize("effort", EFFORTS, ids=lambda effort: effort.mode)
def test_events_and_draws_share_no_output_and_no_mass(explorer: Explores, effort: Effort) -> None:
    for got in explore(explorer, effort):
        for event in got.events:
            assert inside(event.token_ids, got.events) == [event]
            assert 0 < event.mass < 1
            settled = says_red(got.query, [event])[0]
            assert event.ended or not got.sample.n or settled == (1.0, 1.0)
        total = math.fsum([*(event.mass for event in got.events), got.remainder])
        assert 0.99 < total <= 1
        assert (got.remainder > 0) == (got.sample.n > 0) == (effort.mode != "exact")
        assert 0 <= got.explored <= got.forwards
        assert effort.mode != "exact" or got.forwards <= effort.forwards
        assert got.sample.decoding == DECODING
        assert not any(inside(c.token_ids or (), got.events) for c in got.sample.completions)


def test_exploring_is_a_function_of_effort_seed_and_purpose(explorer: Explores) -> None:
    effort = EFFORTS[1]
    first = explore(explorer, effort)
    assert explore(explorer, effort) == first
    assert explore(explorer, replace(effort, seed=1)) != first
    assert explore(explorer, replace(effort, purpose="other")) != first


def test_a_greedy_output_is_certain(explorer: Explores) -> None:
    for effort in EFFORTS:
        for got in explore(explorer, effort, Decoding(temperature=0, max_new_tokens=4)):
            ((mass, ended),) = ((event.mass, event.ended) for event in got.events)
            assert (mass, ended, got.sample.n) == (1.0, True, 0)


def test_forced_texts_are_outputs_with_the_masses_that_exploring_finds(explorer: Explores) -> None:
    decoding = Decoding(max_new_tokens=2)
    got = explore(explorer, Effort(mode="exact", forwards=1000), decoding)
    masses = [{event.token_ids: event.mass for event in each.events} for each in got]
    texts = ["red", "red sea", "who red sea"]
    wanted = [(each.query, text) for text in texts for each in got]
    forced = explorer.force(wanted, decoding)
    for i, one in enumerate(forced):
        assert one is not None
        assert one.logprob is not None
        assert one.logprob_floor is not None
        assert one.answer == " ".join(wanted[i][1].split()[:2])
        assert (one.count, one.chunk) == (0, -1)
        assert one.logprob - 4 * explorer.margin <= one.logprob_floor <= one.logprob
        mass = masses[i % len(got)][one.token_ids or ()]
        assert abs(math.log(mass) - one.logprob_floor) <= 4 * explorer.margin
    greedy = explorer.force(wanted, replace(decoding, temperature=0))
    assert None in greedy
    assert explorer.force([], decoding) == []


def test_the_margin_is_small_and_the_seam_is_filled(explorer: Explores) -> None:
    assert 0 < explorer.margin < 1e-3
    assert isinstance(explorer, Explores)
