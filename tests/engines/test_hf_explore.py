"""Explored masses and forced texts of the transformers engine against plain full forwards."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from plain_forwards import (
    EOS,
    PROMPTING,
    QUERIES,
    TOKENIZER,
    VOCAB,
    WORDS,
    Ids,
    enumerate_law,
    model,
    text_of,
)
from scipy import stats
from transformers import LlamaForCausalLM

from leakbound.engines.hf import TransformersEngine
from leakbound.errors import InputError
from leakbound.sampling.outputs import FORCED
from leakbound.scorers import make_scorer, score_ranges
from leakbound.types import (
    Decoding,
    Draws,
    Effort,
    Exploration,
    Failure,
    Query,
    Ranges,
    Sample,
)
from suites import slow_but
from tiny import BOTH_KINDS, tiny_llama, tiny_loaded, tiny_tokenizer

PLAIN = Decoding(max_new_tokens=3)
DECODINGS = [
    PLAIN,
    Decoding(max_new_tokens=3, temperature=0.6),
    Decoding(max_new_tokens=3, top_k=4),
    Decoding(max_new_tokens=3, top_p=0.8),
    Decoding(max_new_tokens=3, temperature=1.7, top_k=9, top_p=0.9),
    Decoding(max_new_tokens=3, adaptive_temperature=0.3),
    Decoding(max_new_tokens=3, stop=("blue", "sky red")),
]
TEMPERED, NUCLEUS, TRUNCATED, ADAPTIVE, STOPPED = (DECODINGS[i] for i in (1, 3, 4, 5, 6))
LAWS = [*product(DECODINGS, [False, True])]  # the second: in float64
TWO_PASS = Decoding(max_new_tokens=3, adaptive_temperature=0.3, adaptive_mode="two_pass")
ANSWER = "red"
WHOLE = Effort(mode="exact", forwards=10_000)


def engine(
    double: bool = False, rows: int | None = None, of: LlamaForCausalLM | None = None
) -> TransformersEngine:
    return TransformersEngine(tiny_loaded(of or model(double), TOKENIZER), PROMPTING, rows=rows)


def name(decoding: Decoding) -> str:
    return f"{decoding.name} stop" if decoding.stop else decoding.name


def unsettled(query: Query, texts: Sequence[tuple[str, bool]]) -> list[tuple[float, float]]:
    return [(float(ANSWER in text),) * 2 if ended else (0.0, 1.0) for text, ended in texts]


def settling(query: Query, texts: Sequence[tuple[str, bool]]) -> list[tuple[float, float]]:
    return score_ranges(make_scorer("contains"), texts, ANSWER)


def explore(
    made: TransformersEngine, decoding: Decoding, effort: Effort, ranges: Ranges = unsettled
) -> list[Exploration]:
    found = list(made.explore(QUERIES, decoding, effort, ranges))
    assert [each.query for each in found] == QUERIES
    return [each for each in found if isinstance(each, Exploration)]


def slack(made: TransformersEngine, decoding: Decoding) -> float:
    """How far a token's log-probability may lie from its floor: once up, once down."""
    return 2 * made.margin / min(decoding.temperature or 1.0, 1.0)


@contextmanager
def rows_forwarded(made: TransformersEngine) -> Iterator[list[int]]:
    """How many rows each call of the model had."""
    made.measure(QUERIES)
    made.margin  # noqa: B018 (measured once, with forwards of its own)
    rows: list[int] = []

    def note(_: object, __: object, inputs: dict[str, torch.Tensor]) -> None:
        rows.append(len(inputs["input_ids"]))

    handle = made.loaded.model.register_forward_pre_hook(note, with_kwargs=True)
    yield rows
    handle.remove()


@BOTH_KINDS
@pytest.mark.parametrize(
    ("decoding", "double"),
    slow_but([(PLAIN, True), (TRUNCATED, False), (ADAPTIVE, False), (STOPPED, False)], LAWS),
    ids=lambda value: name(value) if isinstance(value, Decoding) else f"double={value}",
)
def test_a_whole_exploration_is_the_law_of_plain_forwards(decoding: Decoding, double: bool) -> None:
    made = engine(double)
    for found in explore(made, decoding, WHOLE):
        law = enumerate_law(double, found.query, decoding)
        assert {event.token_ids for event in found.events} == set(law)
        for event in found.events:
            p = law[event.token_ids]
            assert event.ended
            assert event.text == text_of(event.token_ids, decoding)
            assert p * math.exp(-slack(made, decoding) * len(event.token_ids)) <= event.mass <= p
        total = math.fsum(event.mass for event in found.events)
        assert math.exp(-2 * slack(made, decoding)) <= total <= 1
        assert (found.sample.n, found.remainder) == (0, 0.0)
        assert found.sample.decoding == decoding
        inner = {ids[:depth] for ids in law for depth in range(1, len(ids))}
        assert found.explored == found.forwards == len(inner)


@pytest.mark.parametrize("decoding", slow_but([PLAIN, STOPPED], DECODINGS), ids=name)
def test_bounds_of_the_tail_hold_the_truth(decoding: Decoding) -> None:
    made, settled = engine(), 0
    for forwards in (1, 8, 40):
        for found in explore(made, decoding, Effort(mode="exact", forwards=forwards), settling):
            law = enumerate_law(False, found.query, decoding)
            truth = math.fsum(p for ids, p in law.items() if ANSWER in text_of(ids, decoding))
            ranges = settling(found.query, [(e.text, e.ended) for e in found.events])
            pairs = list(zip(found.events, ranges, strict=True))
            leaking = math.fsum(event.mass for event, (low, _) in pairs if low > 0)
            clean = math.fsum(event.mass for event, (_, high) in pairs if high == 0)
            assert leaking <= truth + 1e-12
            assert truth <= 1 - clean + 1e-12
            settled += sum(not event.ended and low == high for event, (low, high) in pairs)
            for event in found.events:
                inside = [ids for ids in law if ids[: len(event.token_ids)] == event.token_ids]
                assert event.mass <= math.fsum(law[ids] for ids in inside)
                assert all(text_of(ids, decoding).startswith(event.text) for ids in inside)
    assert settled > 0


@pytest.mark.parametrize("mode", ["hybrid", "auto"])
@pytest.mark.parametrize(
    "decoding",
    [
        Decoding(max_new_tokens=4),
        Decoding(max_new_tokens=4, temperature=1.7, top_k=9, top_p=0.9),
        Decoding(max_new_tokens=4, stop=("blue", "sky red")),
    ],
    ids=["plain", "truncated", "stop"],
)
@pytest.mark.thorough
def test_draws_and_events_together_have_the_law(decoding: Decoding, mode: Any) -> None:
    made = engine()
    for found in explore(made, decoding, Effort(mode=mode, forwards=250, seed=2)):
        law = enumerate_law(False, found.query, decoding)
        events = {event.token_ids for event in found.events}
        rest = {
            ids: p
            for ids, p in law.items()
            if not any(ids[:depth] in events for depth in range(1, len(ids) + 1))
        }
        left, n = math.fsum(rest.values()), found.sample.n
        assert n > 50, "this effort leaves a remainder to draw from"
        assert left * math.exp(-3 * slack(made, decoding)) <= found.remainder <= left
        drawn = Counter[Ids]()
        for c in found.sample.completions:
            assert c.text == text_of(c.token_ids or (), decoding)
            assert (c.logprob_floor or 0) <= math.log(rest[c.token_ids or ()])
            drawn[c.token_ids or ()] += c.count
        order = sorted(rest, key=lambda ids: (rest[ids], ids))
        upto = np.cumsum([rest[ids] / left for ids in order])
        bins = np.minimum((upto * (n // 6)).astype(int), n // 6 - 1)  # six draws each, expected
        observed = np.bincount(bins, [drawn[ids] for ids in order])
        expected = np.bincount(bins, [rest[ids] / left * n for ids in order])
        assert stats.chisquare(observed[expected > 0], expected[expected > 0]).pvalue > 1e-3


def test_what_is_settled_is_asked_of_its_own_query() -> None:
    made, asked = engine(), dict[str, set[tuple[str, bool]]]()

    def ranges(query: Query, texts: Sequence[tuple[str, bool]]) -> list[tuple[float, float]]:
        asked.setdefault(query.id, set()).update(texts)
        return unsettled(query, texts)

    for found in explore(made, DECODINGS[3], Effort(mode="exact", forwards=20), ranges):
        said = {(event.text, event.ended) for event in found.events if event.ended}
        assert said == {pair for pair in asked[found.query.id] if pair[1]}
    assert len({frozenset(texts) for texts in asked.values()}) == len(QUERIES)


@BOTH_KINDS
@pytest.mark.parametrize("decoding", DECODINGS, ids=name)
def test_forced_texts_have_their_exact_probability(decoding: Decoding) -> None:
    made, words = engine(), ["red", "blue", "sea"]
    texts = ["", *words, *(f"{a} {b}" for a in words for b in words), "red sea red", "sky sea sky"]
    asked = [(query, text) for text in texts for query in QUERIES]
    produced = 0
    for (query, text), one in zip(asked, made.force(asked, decoding), strict=True):
        ids = tuple([*TOKENIZER.encode(text, add_special_tokens=False), EOS][:3])
        p = enumerate_law(False, query, decoding).get(ids)
        if p is None:
            assert one is None
            continue
        produced += 1
        assert one is not None
        assert (one.text, one.token_ids, one.count, one.chunk) == (text, ids, 0, FORCED)
        assert one.finish_reason == ("stop" if ids[-1] == EOS else "length")
        assert one.logprob == pytest.approx(math.log(p), abs=3 * made.margin)
        assert one.logprob_floor is not None
        assert math.log(p) - slack(made, decoding) * len(ids) <= one.logprob_floor <= math.log(p)
    assert produced > 0


def test_a_text_longer_than_the_decoding_allows_is_cut_there() -> None:
    made = engine()
    (cut,) = made.force([(QUERIES[0], "red sea blue sky red")], PLAIN)
    (whole,) = made.force([(QUERIES[0], "red sea blue")], PLAIN)
    assert cut is not None
    assert cut == whole
    assert (cut.text, cut.finish_reason) == ("red sea blue", "length")


CHAT = (
    "{% for m in messages %}{{ '<s> ' + m['content'] + ' <e> ' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<s>' }}{% endif %}"
)


def test_the_end_of_turn_ends_a_chat_models_answer() -> None:
    tokenizer = tiny_tokenizer(WORDS)
    tokenizer.add_tokens(["<s>", "<e>"], special_tokens=True)
    tokenizer.chat_template = CHAT
    start, turn = tokenizer.convert_tokens_to_ids(["<s>", "<e>"])
    of = tiny_llama(len(tokenizer), seed=1, initializer_range=0.2)
    made = TransformersEngine(tiny_loaded(of, tokenizer, ends=[EOS, turn]))
    (one,) = made.force([(QUERIES[1], "red")], PLAIN)
    assert one is not None
    red = tokenizer.convert_tokens_to_ids("red")
    assert (one.text, one.token_ids, one.finish_reason) == ("red", (red, turn), "stop")
    with torch.inference_mode():
        sea = tokenizer.convert_tokens_to_ids("sea")
        table = of(torch.tensor([[start, sea, turn, start, red]])).logits[0].double()
    law = table.log_softmax(dim=-1)
    assert one.logprob == pytest.approx(float(law[-2, red] + law[-1, turn]), abs=2 * made.margin)


def test_an_answer_whose_end_token_ends_nothing_is_no_output() -> None:
    made = TransformersEngine(tiny_loaded(model(), TOKENIZER, ends=()), PROMPTING)
    short, full = made.force([(QUERIES[0], "red"), (QUERIES[0], "red sea blue")], PLAIN)
    assert short is None
    assert full is not None
    assert full.finish_reason == "length"


def test_an_end_token_is_no_part_of_a_text_even_where_it_is_not_special() -> None:
    sky = 3 + WORDS.index("sky")
    made = TransformersEngine(tiny_loaded(model(), TOKENIZER, ends=[EOS, sky]), PROMPTING)
    ended = [e for each in explore(made, PLAIN, WHOLE) for e in each.events]
    assert any(event.token_ids[-1] == sky for event in ended)
    assert not any("sky" in event.text for event in ended)
    for found in made.generate(QUERIES, PLAIN, Draws(sizes=(100,))):
        assert isinstance(found, Sample)
        assert not any("sky" in c.text for c in found.completions)


@BOTH_KINDS
@pytest.mark.parametrize("decoding", slow_but([TEMPERED, NUCLEUS], DECODINGS), ids=name)
def test_masses_hold_in_every_batch_shape(decoding: Decoding) -> None:
    one, many = engine(rows=1), engine(rows=64)
    for a, b in zip(explore(one, decoding, WHOLE), explore(many, decoding, WHOLE), strict=True):
        masses = {event.token_ids: event.mass for event in a.events}
        assert set(masses) == {event.token_ids for event in b.events}
        for event in b.events:
            moved = abs(math.log(event.mass) - math.log(masses[event.token_ids]))
            assert moved <= slack(one, decoding) / 2 * len(event.token_ids)


@pytest.mark.parametrize("decoding", DECODINGS, ids=name)
def test_floors_of_draws_hold_in_other_batch_shapes(decoding: Decoding) -> None:
    made = engine(rows=64)
    for sample in made.generate(QUERIES, decoding, Draws(sizes=(100,))):
        assert isinstance(sample, Sample)
        law = enumerate_law(False, sample.query, decoding)
        for c in sample.completions:
            assert c.logprob_floor is not None
            assert c.logprob is not None
            assert c.logprob_floor <= min(c.logprob, math.log(law[c.token_ids or ()]))
            assert c.logprob_floor >= c.logprob - slack(made, decoding) * 3


@pytest.mark.parametrize(
    ("dtype", "decoding", "remedy"),
    [
        (torch.float32, TWO_PASS, "adaptive_mode 'running'"),
        (torch.bfloat16, PLAIN, "bfloat16.*--dtype float32"),
    ],
    ids=["two passes", "half precision"],
)
def test_what_has_no_exact_mode_is_refused_with_the_remedy(
    dtype: torch.dtype, decoding: Decoding, remedy: str
) -> None:
    made = engine(of=tiny_llama(VOCAB).to(dtype))
    with pytest.raises(InputError, match=remedy):
        list(made.explore(QUERIES, decoding, WHOLE, unsettled))
    with pytest.raises(InputError, match=remedy):
        made.force([(QUERIES[0], "red")], decoding)


def test_draws_in_two_passes_have_no_floor() -> None:
    greedy = 0
    for sample in engine().generate(QUERIES, TWO_PASS, Draws(sizes=(50,))):
        assert isinstance(sample, Sample)
        assert sample.decoding == TWO_PASS
        assert all(c.logprob is not None for c in sample.completions)
        assert all(c.logprob_floor is None for c in sample.completions)
        greedy += len(sample.completions) == 1
    assert 0 < greedy < len(QUERIES), "both passes are seen"


def test_usage_counts_what_exploring_forwarded() -> None:
    for effort in (Effort(mode="exact", forwards=40), Effort(mode="hybrid", forwards=60)):
        made = engine()
        with rows_forwarded(made) as rows:
            found = explore(made, PLAIN, effort)
        assert made.usage.forwards == sum(rows) - len(QUERIES)  # the prompts are apart
        assert made.usage.forwards == sum(each.forwards for each in found)
        prompts = [PROMPTING.encode(TOKENIZER, query.text) for query in QUERIES]
        assert made.usage.prompt_tokens == sum(map(len, prompts))
        assert made.usage.draws >= sum(each.sample.n for each in found)
        assert made.usage.seconds > 0


def test_forcing_reads_each_prompt_and_each_prefix_once() -> None:
    made = engine()
    texts = ["red sea", "red blue", "red", "sky"]
    with rows_forwarded(made) as rows:
        found = made.force([(query, text) for text in texts for query in QUERIES[:2]], PLAIN)
    assert all(found)
    assert sum(rows) == 2 * (1 + 2 + 2)  # prompt; red, sky; red sea, red blue


def test_unusable_logits_fail_their_query_alone() -> None:
    broken = tiny_llama(VOCAB, seed=1, initializer_range=0.2, tie_word_embeddings=False)
    with torch.no_grad():
        broken.model.embed_tokens.weight[3 + WORDS.index("blue")] = float("nan")
    made = engine(of=broken)
    decoding = Decoding(max_new_tokens=3, top_k=1)
    results = list(made.explore(QUERIES, decoding, WHOLE, unsettled))
    failed = [each for each in results if isinstance(each, Failure)]
    assert [each.query.id for each in failed] == ["q2"]
    assert "NaN" in failed[0].reason
    asked = [(query, "red sea sea") for query in QUERIES]
    assert [one is None for one in made.force(asked, PLAIN)] == [False, False, True]


def test_nothing_known_but_draws_is_no_event() -> None:
    """An exploration so short that no output was complete leaves all to the draws."""
    made = TransformersEngine(tiny_loaded(model(), TOKENIZER, ends=()), PROMPTING)
    decoding = Decoding(max_new_tokens=10, temperature=3.0)
    for found in explore(made, decoding, Effort(mode="auto", forwards=20)):
        assert found.events == ()
        assert found.sample.n > 0
        assert found.remainder == pytest.approx(1, abs=1e-3)
