"""Explored masses and forced texts of the transformers engine against plain full forwards.

The oracle calls the model itself, without a cache, on all prefixes of one length in one batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import pytest
import torch
from transformers import LlamaForCausalLM

from leakbound.engines import Prompting
from leakbound.engines.hf import TransformersEngine
from leakbound.errors import InputError
from leakbound.sampling.outputs import FORCED
from leakbound.types import Decoding, Draws, Effort, Event, Exploration, Query
from sampling_tables import enumerate_law
from suites import slow_but
from tiny import BOTH_KINDS, cache_by_kind, tiny_llama, tiny_loaded, tiny_tokenizer

WORDS = ("Question:", "Answer:", "who", "red", "blue", "sea", "sky")
QUERIES = [
    Query(id=f"q{i}", prompt_id=f"q{i}", text=text)
    for i, text in enumerate(["who red", "sea", "who blue sky"])
]
PROMPTING = Prompting(template="Question: {question} Answer: ")
TOKENIZER = tiny_tokenizer(WORDS)
VOCAB, EOS = len(TOKENIZER), 2

Ids = tuple[int, ...]


@cache_by_kind
def model(double: bool = False) -> LlamaForCausalLM:
    made = tiny_llama(VOCAB, seed=1, initializer_range=0.2)
    return made.double() if double else made


@cache_by_kind
def next_logits(double: bool, prompt: Ids, depth: int) -> dict[Ids, torch.Tensor]:
    """Return the logits after every prefix of this length, from one forward."""
    paths = list(product(sorted(set(range(VOCAB)) - {EOS}), repeat=depth))
    with torch.inference_mode():
        ids = torch.tensor([prompt + path for path in paths])
        logits = model(double)(ids, use_cache=False).logits[:, -1].double()
    return dict(zip(paths, logits, strict=True))


@cache_by_kind
def law_of(double: bool, query: Query, decoding: Decoding) -> dict[Ids, float]:
    """Return every output of the decoding with its probability."""
    prompt = tuple(PROMPTING.encode(TOKENIZER, query.text))

    def after(ids: Ids) -> list[float]:
        path = ids[len(prompt) :]
        return next_logits(double, prompt, len(path))[path].softmax(dim=-1).tolist()

    def stopped(path: Ids) -> bool:
        return any(s in TOKENIZER.decode(path, skip_special_tokens=True) for s in decoding.stop)

    return enumerate_law(decoding, prompt, after, stopped, eos=EOS)


def text_of(ids: Ids, decoding: Decoding) -> str:
    text: str = TOKENIZER.decode(ids, skip_special_tokens=True)
    for stop in decoding.stop:
        text = text.partition(stop)[0]
    return text


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
TRUNCATED, ADAPTIVE, STOPPED = DECODINGS[4:]
LAWS = [*product(DECODINGS, [False, True])]  # the second value: in float64
TWO_PASS = Decoding(max_new_tokens=3, adaptive_temperature=0.3, adaptive_mode="two_pass")
ANSWER = "red"
WHOLE = Effort(mode="exact", forwards=10_000)


@cache_by_kind
def engine(
    double: bool = False, rows: int | None = None, of: LlamaForCausalLM | None = None
) -> TransformersEngine:
    return TransformersEngine(tiny_loaded(of or model(double), TOKENIZER), PROMPTING, rows=rows)


def name(decoding: Decoding) -> str:
    return f"{decoding.name} stop" if decoding.stop else decoding.name


def unsettled(query: Query, events: Sequence[Event]) -> list[tuple[float, float]]:
    return [(float(ANSWER in e.answer),) * 2 if e.ended else (0.0, 1.0) for e in events]


def explore(made: TransformersEngine, decoding: Decoding) -> list[Exploration]:
    """Explore the complete distribution."""
    got = list(made.explore(QUERIES, decoding, WHOLE, unsettled))
    assert [each.query for each in got] == QUERIES
    return got


def slack(made: TransformersEngine, decoding: Decoding) -> float:
    """Return the largest gap of a log-probability to its floor: rounding in both directions."""
    return 2 * made.margin / min(decoding.temperature or 1.0, 1.0)


@BOTH_KINDS
@pytest.mark.parametrize(
    ("decoding", "double"),
    slow_but([(PLAIN, True), (TRUNCATED, False), (ADAPTIVE, False), (STOPPED, False)], LAWS),
    ids=lambda value: name(value) if isinstance(value, Decoding) else f"double={value}",
)
def test_a_whole_exploration_is_that_of_plain_forwards(decoding: Decoding, double: bool) -> None:
    made = engine(double)
    for got in explore(made, decoding):
        law = law_of(double, got.query, decoding)
        assert {event.token_ids for event in got.events} == set(law)
        for event in got.events:
            p = law[event.token_ids]
            assert event.ended
            assert event.answer == text_of(event.token_ids, decoding)
            assert p * math.exp(-slack(made, decoding) * len(event.token_ids)) <= event.mass <= p
        total = math.fsum(event.mass for event in got.events)
        assert math.exp(-2 * slack(made, decoding)) <= total <= 1
        assert (got.sample.n, got.remainder) == (0, 0.0)
        assert got.sample.decoding == decoding
        inner = {ids[:depth] for ids in law for depth in range(1, len(ids))}
        assert got.explored == got.forwards == len(inner)


@BOTH_KINDS
@pytest.mark.parametrize("decoding", DECODINGS, ids=name)
def test_forced_texts_have_their_exact_probability(decoding: Decoding) -> None:
    made, words = engine(), ["red", "blue", "sea"]
    texts = ["", *words, *(f"{a} {b}" for a in words for b in words), "red sea red sea sky"]
    wanted = [(query, text) for text in texts for query in QUERIES]
    produced = 0
    for (query, text), one in zip(wanted, made.force(wanted, decoding), strict=True):
        ids = tuple([*TOKENIZER.encode(text, add_special_tokens=False), EOS][:3])
        p = law_of(False, query, decoding).get(ids)
        if p is None:
            assert one is None
            continue
        produced += 1
        cut = " ".join(text.split()[:3])  # where the decoding cuts
        assert (one.answer, one.token_ids, one.count, one.chunk) == (cut, ids, 0, FORCED)
        assert one.finish == ("stop" if ids[-1] == EOS else "length")
        assert one.logprob == pytest.approx(math.log(p), abs=3 * made.margin)
        assert math.log(p) - slack(made, decoding) * len(ids) <= one.logprob_floor <= math.log(p)
    assert produced > 0


def test_an_answer_whose_end_token_ends_nothing_is_no_output() -> None:
    made = TransformersEngine(tiny_loaded(model(), TOKENIZER, ends=()), PROMPTING)
    short, full = made.force([(QUERIES[0], "red"), (QUERIES[0], "red sea blue")], PLAIN)
    assert short is None
    assert full.finish == "length"


def test_an_ordinary_end_token_is_no_part_of_a_text() -> None:
    sky = 3 + WORDS.index("sky")
    made = TransformersEngine(tiny_loaded(model(), TOKENIZER, ends=[EOS, sky]), PROMPTING)
    ended = [e for each in explore(made, PLAIN) for e in each.events]
    assert any(event.token_ids[-1] == sky for event in ended)
    assert not any("sky" in event.answer for event in ended)
    for got in made.generate(QUERIES, PLAIN, Draws(sizes=(100,))):
        assert not any("sky" in c.answer for c in got.completions)


@pytest.mark.parametrize("decoding", DECODINGS, ids=name)
def test_floors_of_draws_hold_in_other_batch_shapes(decoding: Decoding) -> None:
    made = engine(rows=64)
    for sample in made.generate(QUERIES, decoding, Draws(sizes=(100,))):
        law = law_of(False, sample.query, decoding)
        for c in sample.completions:
            assert c.logprob_floor <= min(c.logprob, math.log(law[c.token_ids or ()]))
            assert c.logprob_floor >= c.logprob - slack(made, decoding) * 3


@pytest.mark.parametrize(
    ("dtype", "decoding", "remedy"),
    [
        (torch.float32, TWO_PASS, "adaptive_mode 'running'"),
        (torch.bfloat16, PLAIN, "bfloat16.*--dtype float32"),
        (torch.float32, Decoding(max_tokens=9), "max_tokens 9 limits prompt and completion"),
    ],
    ids=["two passes", "half precision", "max_tokens"],
)
def test_no_exact_mode_names_a_remedy(dtype: torch.dtype, decoding: Decoding, remedy: str) -> None:
    made = engine(of=tiny_llama(VOCAB).to(dtype))
    with pytest.raises(InputError, match=remedy):
        list(made.explore(QUERIES, decoding, WHOLE, unsettled))
    with pytest.raises(InputError, match=remedy):
        made.force([(QUERIES[0], "red")], decoding)
