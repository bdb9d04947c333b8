"""The transformers engine on a tiny model: distributions, texts, limits, refusals, progress.

Also adaptive temperature in `generate`, which follows the decoding at any batch size.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from leakbound.engines import Prompting, open_engine
from leakbound.engines.adaptive import AdaptiveTemperature
from leakbound.engines.hf import RowBudget, TransformersEngine
from leakbound.engines.prefix_cache import Cascade, arithmetic
from leakbound.errors import InputError
from leakbound.types import Decoding, Draws, Effort, Failure, Query, Sample
from sampling_tables import EOS, ROOTS, Ids, enumerate_law, next_law, probabilities, unknown
from suites import slow_but
from tiny import BOTH_KINDS, WORDS, tiny_llama, tiny_loaded, tiny_model_folder, tiny_tokenizer

QUERIES = [
    Query(id=f"q{i}", prompt_id=f"q{i}", text=text)
    for i, text in enumerate(["who wrote red", "who", "who wrote blue sky sea"])
]
PROMPTING = Prompting(template="Question: {question} Answer: ")


def engine(seed: int = 0, rows: int | None = None, **config: int) -> TransformersEngine:
    model = tiny_llama(len(tiny_tokenizer()), seed, **config)
    return TransformersEngine(tiny_loaded(model, weights=str(seed)), PROMPTING, rows=rows)


def samples(made: TransformersEngine, decoding: Decoding, n: int = 200) -> dict[str, Sample]:
    return {s.query.id: s for s in made.generate(QUERIES, decoding, Draws(sizes=(n,)))}


def text(one: Any) -> list[str]:
    return [each.answer for each in getattr(one, "sample", one).completions]


@BOTH_KINDS
def test_lengths_and_log_probabilities_are_as_of_generate() -> None:
    """Two-sample KS against transformers' ancestral sampling on the same model.

    A thousand of each detect a top-k of 5, or a temperature of 0.8.
    """
    made = engine(3)
    model = made.loaded.model
    decoding = Decoding(max_new_tokens=8)
    sample = samples(made, decoding, 1000)["q0"]
    prompt = torch.tensor([PROMPTING.encode(made.loaded.tokenizer, QUERIES[0].text)])
    torch.manual_seed(0)
    out = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        do_sample=True,
        top_k=0,
        top_p=1.0,
        temperature=1.0,
        max_new_tokens=8,
        num_return_sequences=1000,
        eos_token_id=2,
        pad_token_id=0,
    )
    with torch.inference_mode():
        table = model(out).logits.double().log_softmax(-1)[:, prompt.shape[1] - 1 : -1]
    theirs = []
    for row, ids in zip(table, out[:, prompt.shape[1] :], strict=True):
        ends = (ids == 2).nonzero()
        length = int(ends[0]) + 1 if len(ends) else len(ids)
        theirs.append((length, float(row[range(length), ids[:length]].sum())))
    ours = [(len(c.token_ids or ()), c.logprob) for c in sample.completions for _ in range(c.count)]
    for i in (0, 1):
        # rounded, so that equal completions tie in spite of float32
        a, b = (np.round([pair[i] for pair in pairs], 5) for pairs in (ours, theirs))
        assert stats.ks_2samp(a, b).pvalue > 1e-3


def test_two_passes_give_a_point_mass_or_the_plain_decoding() -> None:
    made = engine()
    greedy = samples(made, Decoding(temperature=0, max_new_tokens=6), 1)
    confidence = {q: s.completions[0].confidence or 0 for q, s in greedy.items()}
    middle = float(np.median(list(confidence.values())))
    decoding = Decoding(max_new_tokens=6, adaptive_temperature=middle, adaptive_mode="two_pass")
    before = made.usage.draws
    got = samples(made, decoding)
    assert made.usage.draws == before + 200 * len(got)
    plain = samples(made, dataclasses.replace(decoding, adaptive_temperature=None))
    above = [q for q in confidence if confidence[q] > middle]
    assert len(above) == 1
    for q, sample in got.items():
        assert sample.decoding == decoding
        assert all(c.logprob is not None and c.logprob_floor is None for c in sample.completions)
        if q in above:
            assert [c.answer for c in sample.completions] == [greedy[q].completions[0].answer]
            assert sample.n == 200
        else:
            counts = {c.token_ids: c.count for c in plain[q].completions}
            assert {c.token_ids: c.count for c in sample.completions} == counts


@pytest.mark.parametrize(
    ("rows", "exactly"), slow_but([(None, False), (1, True)], product([None, 1], [False, True]))
)
def test_a_prompt_that_breaks_the_model_spoils_no_other(rows: int | None, exactly: bool) -> None:
    """In either order, and after the first shared token; the other prompts are unchanged."""
    texts = ["who wrote sea", "who wrote red", "who wrote", "who sea wrote red", "who blue"]
    queries = [Query(id=each, prompt_id=each, text=each) for each in texts]
    healthy = [query for query in queries if "sea" not in query.text]

    def results_of(queried: list[Query]) -> dict[str, Any]:
        made = engine(rows=rows, tie_word_embeddings=False)
        with torch.no_grad():
            made.loaded.model.model.embed_tokens.weight[3 + WORDS.index("sea")] = float("nan")
        decoding = Decoding(max_new_tokens=3, top_k=1)  # the likeliest words are others
        results = (
            made.explore(queried, decoding, Effort(mode="exact", forwards=15), unknown)
            if exactly
            else made.generate(queried, decoding, Draws(sizes=(5,)))
        )
        return {one.query.id: one for one in results}

    alone = results_of(healthy)
    assert not any(isinstance(one, Failure) for one in alone.values())
    for queried in (queries, queries[::-1]):
        together = results_of(queried)
        failed = {name for name, one in together.items() if isinstance(one, Failure)}
        assert failed == {"who wrote sea", "who sea wrote red"}
        assert {name: text(one) for name, one in together.items() if name in alone} == {
            name: text(one) for name, one in alone.items()
        }


def test_the_row_budget_follows_from_the_cache_it_needs() -> None:
    made = engine()
    token = 2 * 2 * 1 * 8 * 4  # keys and values, layers, heads, width, bytes
    assert made.rows(10) == (1024, 4096)
    assert made.rows((2 << 30) // (token * 2000)) == (1024, 2000)
    assert [engine(rows=n).rows(10) for n in (7, 0)] == [(7, 28), (0, 0)]  # 0: a forest refuses it
    assert made.fingerprint["row_budget"].endswith(f"4096 are kept, within {2 << 30} bytes")


def test_a_gpu_is_given_more_rows_by_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    card, token = SimpleNamespace(total_memory=80 << 30), 2 * 2 * 1 * 8 * 4
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: card)
    budget = RowBudget.of(torch.device("cuda"))
    assert budget.rows(tiny_llama(8), 10) == (4096, 16384)
    assert budget.rows(tiny_llama(8), (10 << 30) // (token * 100)) == (100, 100)
    assert "80" not in budget.rule  # a run may resume on another card
    assert not Cascade.on(torch.device("cuda")).pays(128, 4000, 16)
    assert Cascade.on(torch.device("cuda")).pays(128, 4096, 256)
    assert arithmetic(torch.device("cuda")).endswith(
        "from 64 tokens, 4 sequences per prompt, and 524288 tokens times sequences"
    )
    assert Cascade.on(torch.device("cpu")).pays(100, 1024, 16)


def test_open_engine_loads_a_folder_and_names_what_was_run(tmp_path: Path) -> None:
    made = open_engine(str(tiny_model_folder(tmp_path / "m")), PROMPTING)
    fingerprint = made.fingerprint
    assert fingerprint["engine"] == "transformers"
    assert made.machine["prompts_read_once"] == {"tokens": 64, "rows": 4, "keys": 1}
    assert fingerprint["prompting"]["template"] == PROMPTING.template
    assert fingerprint["prompting"]["chat"] is False
    assert fingerprint["dtype"] == "float32"
    assert fingerprint["arithmetic"].endswith(
        "from 64 tokens, 4 sequences per prompt, and 1 tokens times sequences"
    )
    with pytest.raises(InputError, match="empty"):
        open_engine("", PROMPTING)


LENGTHS = {"q0": 5, "q1": 3, "q2": 7}


@pytest.mark.parametrize("new", [200, 4])
def test_a_completion_has_the_room_that_its_prompt_leaves(new: int) -> None:
    made = engine()
    got = samples(made, Decoding(max_tokens=9, max_new_tokens=new), 60)
    assert sorted(got) == list(LENGTHS)
    for name, sample in got.items():
        room = min(new, 9 - LENGTHS[name])
        alone = samples(made, Decoding(max_new_tokens=room), 60)[name]
        assert {c.token_ids: c.count for c in sample.completions} == {
            c.token_ids: c.count for c in alone.completions
        }
        assert max(len(c.token_ids or ()) for c in sample.completions) == room


@pytest.mark.parametrize(
    ("limit", "fits", "why"),
    [
        ("max_new_tokens", (121, 122), "'q2' has 7 prompt tokens.*context of 128"),
        ("max_tokens", (8, 7), "'q2' has 7 prompt tokens, but prompt and completion together"),
        ("max_tokens", (128, 129), "'q0' has 5 prompt tokens. Together with 124 new tokens"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(limit: str, fits: tuple[int, int], why: str) -> None:
    made, (good, bad) = engine(), fits
    made.check(QUERIES, Decoding(**{limit: good}))
    with pytest.raises(InputError, match=why):
        made.check(QUERIES, Decoding(**{limit: bad}))


def heard(made: TransformersEngine, work: Callable[[], object]) -> tuple[list[int], list[int]]:
    """Return the draws and the tokens of each report."""
    draws, tokens = list[int](), list[int]()

    def tell(finished: int, forwarded: int, note: str = "") -> None:
        draws.append(finished)
        tokens.append(forwarded)

    made.tell = tell
    work()
    assert sum(tokens) == made.usage.forwards
    return draws, tokens


@pytest.mark.parametrize("rows", [1, None])
@pytest.mark.parametrize("threshold", [None, 0.999], ids=["plain", "after a greedy pass"])
def test_every_draw_and_token_is_reported_early(rows: int | None, threshold: float | None) -> None:
    made = engine(rows=rows)
    how = Decoding(max_new_tokens=6, adaptive_temperature=threshold, adaptive_mode="two_pass")
    few = Draws(sizes=(3, 2))
    draws, tokens = heard(made, lambda: list(made.generate(QUERIES, how, few)))
    assert sum(draws) == few.n * len(QUERIES)
    assert len(tokens) >= 5  # after each step
    assert max(draws) < sum(draws)


def test_an_exploration_reports_its_forwards() -> None:
    made, effort = engine(), Effort(mode="hybrid", forwards=40)
    how = Decoding(max_new_tokens=4)
    _, tokens = heard(made, lambda: list(made.explore(QUERIES, how, effort, unknown)))
    assert sum(tokens) > 40
    assert max(tokens) < sum(tokens) / 2


DECODINGS = [
    Decoding(max_new_tokens=4, adaptive_temperature=0.6),
    Decoding(max_new_tokens=4, adaptive_temperature=0.7),
    Decoding(max_new_tokens=4, adaptive_temperature=0.7, temperature=1.4, top_p=0.8),
    Decoding(max_new_tokens=3, adaptive_temperature=1.0),
]
PROMPTS = [root.token_ids for root in ROOTS]


def served_law(prompt: Ids, decoding: Decoding) -> dict[Ids, float]:
    """Return every completion's mass if each step uses the processor, then the plain decoding.

    All prefixes of one length are one batch, in another order at each step.
    """
    processor = AdaptiveTemperature(decoding.adaptive_temperature)
    plain = dataclasses.replace(decoding, adaptive_temperature=None)
    law, live = dict[Ids, float](), {(): 1.0}
    for _ in range(decoding.max_new_tokens):
        if not live:
            break
        paths = sorted(live, key=lambda path: path[::-1], reverse=True)
        rows = [probabilities(prompt + path) for path in paths]
        scores = torch.tensor(rows, dtype=torch.float64).log()
        processed = processor(torch.tensor([prompt + path for path in paths]), scores)
        live = {
            (*path, token): live[path] * p
            for path, row in zip(paths, processed.softmax(dim=-1).tolist(), strict=True)
            for token, p in enumerate(next_law(row, plain).tolist())
            if p > 0
        }
        law |= {path: live.pop(path) for path in list(live) if path[-1] == EOS}
    return law | live


@pytest.mark.parametrize("decoding", DECODINGS, ids=lambda d: d.name)
def test_the_processor_has_the_distribution_of_the_sampler(decoding: Decoding) -> None:
    completions = 0
    for prompt in PROMPTS:
        sampled, served = enumerate_law(decoding, prompt), served_law(prompt, decoding)
        assert served.keys() == sampled.keys()
        assert list(served.values()) == pytest.approx([sampled[path] for path in served])
        completions += len(served)
    never = dataclasses.replace(decoding, adaptive_temperature=1.0)
    all_drawn = sum(len(served_law(prompt, never)) for prompt in PROMPTS)
    some_greedy = decoding.adaptive_temperature != 1
    assert len(PROMPTS) < completions < all_drawn + (not some_greedy)


def scores_of(*largest: float) -> torch.Tensor:
    """Return rows of logits over four tokens; token 2 is the likeliest, at these chances."""
    rows = [[(1 - p) / 3, (1 - p) / 3, p, (1 - p) / 3] for p in largest]
    return torch.tensor(rows, dtype=torch.float64).log()


def drawn(processed: torch.Tensor) -> list[bool]:
    """Return whether each row still has more than one token."""
    return (processed.isfinite().sum(dim=-1) > 1).tolist()


def test_strictly_above_the_threshold_and_nothing_else_changes() -> None:
    ids = torch.tensor([[1], [1]])
    scores = torch.tensor([[0.0, 0.0, -math.inf, -math.inf], [0.0, 0.5, 3.0, 3.0]])
    exactly = AdaptiveTemperature(0.5)
    assert torch.equal(exactly(ids, scores), scores)
    two = torch.tensor([[1, 0], [1, 0]])
    assert torch.equal(exactly(two, scores), scores)  # a half twice has a mean of a half
    above = AdaptiveTemperature(0.45)(ids, scores)
    assert above[0].tolist() == [0.0, -math.inf, -math.inf, -math.inf]  # ties: the lowest id
    assert above[1].tolist() == [-math.inf, -math.inf, 3.0, -math.inf]
    assert above.dtype == scores.dtype


def test_another_prompt_or_a_reset_starts_again() -> None:
    processor = AdaptiveTemperature(0.75)
    assert drawn(processor(torch.tensor([[1]]), scores_of(0.5))) == [True]
    assert drawn(processor(torch.tensor([[7, 8]]), scores_of(0.9))) == [False]
    assert drawn(processor(torch.tensor([[7, 8, 2]]), scores_of(0.5))) == [True]
    last = torch.tensor([[7, 8, 2, 2]]), scores_of(0.8)
    processor.reset()
    assert drawn(processor(*last)) == [False]  # 2.2 / 3 if it continued


def test_unusable_scores_are_left_for_generate_to_refuse() -> None:
    broken = scores_of(0.9, 0.9)
    broken[0, 1] = torch.nan
    processed = AdaptiveTemperature(0.1)(torch.tensor([[1], [1]]), broken)
    torch.testing.assert_close(processed[0], broken[0], rtol=0, atol=0, equal_nan=True)
    assert drawn(processed[1:]) == [False]


def test_generate_takes_it() -> None:
    model = tiny_llama(12, initializer_range=0.7)
    prompt = torch.tensor([[3, 4], [5, 6], [7, 8]])
    settings = {"attention_mask": torch.ones_like(prompt), "max_new_tokens": 8, "top_k": 0}
    greedy = model.generate(prompt, do_sample=False, **(settings | {"top_k": None}))

    def served(threshold: float, **more: float) -> torch.Tensor:
        torch.manual_seed(4)
        processor = [AdaptiveTemperature(threshold)] if threshold else []
        return model.generate(
            prompt, do_sample=True, logits_processor=processor, **settings, **more
        )

    # the confidence is at T = 1, so a temperature of 50 does not affect it
    assert torch.equal(served(0.01, temperature=50.0), greedy)
    assert torch.equal(served(1.0), served(0.0))
    assert not torch.equal(served(1.0), greedy)
