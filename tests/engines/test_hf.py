"""The transformers engine on a tiny model: laws, texts, refusals."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from leakbound.engines import Prompting, open_engine
from leakbound.engines.hf import TransformersEngine
from leakbound.errors import InputError
from leakbound.types import Decoding, Draws, Effort, Exploration, Failure, Query, Sample
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


def samples(
    made: TransformersEngine, decoding: Decoding, n: int = 200, **draws: int
) -> dict[str, Sample]:
    found = list(made.generate(QUERIES, decoding, Draws(sizes=(n,), **draws)))
    assert all(isinstance(s, Sample) for s in found)
    return {s.query.id: s for s in found if isinstance(s, Sample)}


def unsettled(_: int, texts: Sequence[tuple[str, bool]]) -> list[tuple[float, float]]:
    """Scores of which nothing is known."""
    return [(0.0, 1.0)] * len(texts)


def text(one: object) -> list[str]:
    """The texts of a result."""
    sample = one.sample if isinstance(one, Exploration) else one
    assert isinstance(sample, Sample)
    return [each.text for each in sample.completions]


@BOTH_KINDS
def test_completions_add_up_and_carry_their_log_probabilities() -> None:
    made = engine()
    decoding = Decoding(max_new_tokens=5)
    for sample in samples(made, decoding).values():
        assert sample.n == 200
        prompt = PROMPTING.encode(made.loaded.tokenizer, sample.query.text)
        for c in sample.completions:
            assert c.token_ids is not None
            with torch.inference_mode():
                logits = made.loaded.model(torch.tensor([[*prompt, *c.token_ids]])).logits[0]
            table = logits.double().log_softmax(-1)
            want = sum(float(table[len(prompt) - 1 + i, t]) for i, t in enumerate(c.token_ids))
            assert c.logprob == pytest.approx(want, abs=1e-4)
            assert c.model_logprob == pytest.approx(c.logprob, abs=1e-12)
            assert (c.finish_reason == "stop") == (c.token_ids[-1] == 2)
            assert "</s>" not in c.text


@BOTH_KINDS
def test_lengths_and_log_probabilities_have_the_law_of_generate() -> None:
    """Two-sample KS against transformers' own ancestral sampling on the same model."""
    made = engine(3)
    model = made.loaded.model
    decoding = Decoding(max_new_tokens=8)
    sample = samples(made, decoding, 3000)["q0"]
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
        num_return_sequences=3000,
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


def test_stop_strings_end_texts_before_them() -> None:
    made = engine()
    plain = samples(made, Decoding(max_new_tokens=6))
    words = [w for s in plain.values() for c in s.completions for w in c.text.split()]
    stop = max(set(words), key=words.count)
    stopped = samples(made, Decoding(max_new_tokens=6, stop=(stop,)))
    reasons = set()
    for sample in stopped.values():
        assert sample.n == 200
        for c in sample.completions:
            reasons.add(c.finish_reason)
            assert stop not in c.text
    assert "stop_string" in reasons


def test_two_pass_adaptive_temperature_is_a_point_mass_or_the_plain_decoding() -> None:
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
        if q in above:
            assert [c.text for c in sample.completions] == [greedy[q].completions[0].text]
            assert sample.n == 200
        else:
            counts = {c.token_ids: c.count for c in plain[q].completions}
            assert {c.token_ids: c.count for c in sample.completions} == counts


def test_a_query_longer_than_the_context_is_refused_by_name() -> None:
    made = engine()
    with pytest.raises(InputError, match=r"'q2' has 7 prompt tokens.*context of 128"):
        made.check(QUERIES, Decoding(max_new_tokens=122))
    made.check(QUERIES, Decoding(max_new_tokens=121))


def test_nan_logits_fail_their_query_with_prefix_and_reason() -> None:
    made = engine(tie_word_embeddings=False)  # tied, every query would meet the NaN in the head
    with torch.no_grad():
        made.loaded.model.model.embed_tokens.weight[3 + WORDS.index("sea")] = float("nan")
    results = list(made.generate(QUERIES, Decoding(max_new_tokens=1), Draws(sizes=(5,))))
    failed = [r for r in results if isinstance(r, Failure)]
    assert [f.query.id for f in failed] == ["q2"]
    assert "NaN" in failed[0].reason
    assert len(results) == 3


@pytest.mark.parametrize(
    ("rows", "exactly"), slow_but([(None, False), (1, True)], product([None, 1], [False, True]))
)
def test_a_prompt_that_breaks_the_model_spoils_none_that_begin_as_it_does(
    rows: int | None, exactly: bool
) -> None:
    """Whichever comes first, and from the first shared token on; the others are as without it."""
    texts = ["who wrote sea", "who wrote red", "who wrote", "who sea wrote red", "who blue"]
    queries = [Query(id=text, prompt_id=text, text=text) for text in texts]
    healthy = [query for query in queries if "sea" not in query.text]

    def found(asked: list[Query]) -> dict[str, object]:
        made = engine(rows=rows, tie_word_embeddings=False)
        with torch.no_grad():
            made.loaded.model.model.embed_tokens.weight[3 + WORDS.index("sea")] = float("nan")
        decoding = Decoding(max_new_tokens=3, top_k=1)  # the likeliest words are others
        results: Iterator[Sample | Exploration | Failure] = (
            made.explore(asked, decoding, Effort(mode="exact", forwards=40), unsettled)
            if exactly
            else made.generate(asked, decoding, Draws(sizes=(5,)))
        )
        return {
            one.sample.query.id if isinstance(one, Exploration) else one.query.id: one
            for one in results
        }

    alone = found(healthy)
    assert not any(isinstance(one, Failure) for one in alone.values())
    for asked in (queries, queries[::-1]):
        together = found(asked)
        failed = {name for name, one in together.items() if isinstance(one, Failure)}
        assert failed == {"who wrote sea", "who sea wrote red"}
        assert {name: text(one) for name, one in together.items() if name in alone} == {
            name: text(one) for name, one in alone.items()
        }


def test_the_row_budget_follows_from_the_cache_it_needs() -> None:
    made = engine()
    token = 2 * 2 * 1 * 8 * 4  # keys and values, layers, heads, width, bytes
    assert made.rows(10) == 1024
    assert made.rows((2 << 30) // (token * 100)) == 100
    assert engine(rows=7).rows(10) == 7


def test_open_engine_loads_a_folder_and_names_what_was_run(tmp_path: Path) -> None:
    made = open_engine(str(tiny_model_folder(tmp_path / "m")), PROMPTING)
    fingerprint = made.fingerprint
    assert fingerprint["engine"] == "transformers"
    assert fingerprint["prompting"]["template"] == PROMPTING.template
    assert fingerprint["prompting"]["chat"] is False
    assert fingerprint["dtype"] == "float32"
    with pytest.raises(InputError, match="empty"):
        open_engine("", PROMPTING)
