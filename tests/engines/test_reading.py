"""Answers read together, against a loop that reads each separately with plain full forwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from test_prefix_cache import BRANCHING, STATE_SPACE, VOCAB, build, forwarded
from tokenizers import AddedToken

from leakbound.engines import Prompting
from leakbound.engines.hf import TransformersEngine
from leakbound.engines.loading import LoadedModel
from leakbound.engines.reading import Reader
from leakbound.errors import InputError, ModelError
from leakbound.types import Differentiates, Query, Reading, Reads
from offline_tokenizers import LLAMA_3, byte_level
from suites import slow_but
from tiny import BOTH_KINDS, WORDS, tiny_llama, tiny_loaded, tiny_tokenizer

PROMPTING = Prompting(template="Question: {question} Answer: ")
PROMPTS = {
    "who wrote": ("red sky", "red sea", "red", "", "blue sky sea Ann Bob red green"),
    "who wrote blue sky sea": ("Ann wrote red", "Ann wrote blue"),
    "sea": ("Bob",),
    "Ann": ("blue sky sea Ann Bob red green sky sea red",),  # almost as long as the first
}
TEXTS = [
    (Query(id=question, prompt_id=question, text=question), answer)
    for question, answers in PROMPTS.items()
    for answer in answers
]
EOS = 2


def llama(**config: Any) -> LoadedModel:
    model = tiny_llama(len(tiny_tokenizer()), 3, initializer_range=0.3, **config)
    return tiny_loaded(model, context=64)


def engine(made: LoadedModel) -> TransformersEngine:
    return TransformersEngine(made, PROMPTING)


@torch.no_grad()
def alone(made: LoadedModel, query: Query, answer: str) -> Reading:
    """Read one text: no mask, no padding, all logits."""
    joined = PROMPTING.join(made.tokenizer, query, answer)
    prompt, ids = joined.prompt, joined.answer
    logits = (
        made.model(input_ids=torch.tensor([[*prompt, *ids]]))
        .logits[0, len(prompt) - 1 : -1]
        .double()
    )
    p = logits.softmax(-1).numpy()
    own = np.where(p > 0, np.log(np.where(p > 0, p, 1)), 0)
    mean = (p * own).sum(-1)
    return Reading(
        token_ids=ids,
        text=answer.replace(" </s>", ""),
        logprobs=logits.log_softmax(-1)[range(len(ids)), ids].numpy(),
        top=np.array([int(np.flatnonzero(row == row.max())[0]) for row in logits.numpy()]) == ids,
        mean=mean,
        std=np.sqrt((p * own**2).sum(-1) - mean**2),
        confidence=p.max(-1),
    )


def same(actual: Reading, wanted: Reading, within: float = 1e-5) -> None:
    assert actual.token_ids == wanted.token_ids
    assert np.array_equal(actual.top, wanted.top)
    assert actual.text == wanted.text
    for field in fields(Reading)[2:]:
        a, b = getattr(actual, field.name), getattr(wanted, field.name)
        assert a.shape == (len(actual.token_ids),)
        np.testing.assert_allclose(a, b, rtol=0, atol=within, err_msg=field.name)
    assert actual.logprobs.dtype == np.float64


@pytest.mark.parametrize(
    "name", slow_but(["llama", "gpt2", "gemma3", "mamba"], [*BRANCHING, *STATE_SPACE])
)
def test_texts_read_together_are_as_each_individually(name: str) -> None:
    words = [f"w{i}" for i in range(VOCAB - 3 - len(WORDS))]
    made = tiny_loaded(build((BRANCHING | STATE_SPACE)[name]), tiny_tokenizer([*WORDS, *words]))
    reader = engine(made)
    assert isinstance(reader, Reads)
    assert isinstance(reader, Differentiates)
    for got, (query, answer) in zip(reader.read(TEXTS), TEXTS, strict=True):
        same(got, alone(made, query, answer))
    assert reader.read([]) == []


def test_the_end_token_is_read_and_a_prefix_opens_the_answer() -> None:
    made = llama()
    (query, _), *_ = TEXTS
    plain, opened = engine(made).read([(query, "red"), (replace(query, prefix="red "), "")])
    assert plain.token_ids[-1] == EOS
    assert len(plain.token_ids) == 2
    np.testing.assert_allclose(opened.logprobs, plain.logprobs[1:], atol=1e-6)


def test_prompts_and_what_answers_begin_with_are_forwarded_once() -> None:
    made = llama()
    reader, shapes = engine(made), forwarded(made.model)
    reader.read([*TEXTS, *TEXTS])
    prompts = [len(PROMPTING.encode(made.tokenizer, question)) for question in PROMPTS]
    # the words before which a word or an end is read; "red" once for the three that begin so
    words = [len(["red", "sky", "sea"]) + 7, len(["Ann", "wrote", "red", "blue"]), 1, 10]
    first, second, third, fourth = (a + b for a, b in zip(prompts, words, strict=True))
    assert first > fourth > second
    assert shapes == [(2, first), (1, second), (1, third)]


def test_equal_texts_are_forwarded_once_without_shared_rows() -> None:
    made = llama()
    shapes = forwarded(made.model)
    Reader(made, PROMPTING, shares=False).read([*TEXTS, *TEXTS])
    assert sum(rows for rows, _ in shapes) == len(TEXTS)


def test_openunlearning_hides_ends_of_turns_inside_the_prompt() -> None:
    tokenizer = byte_level(LLAMA_3, "<|eot_id|>")
    end = tokenizer.pad_token_id
    made = tiny_loaded(tiny_llama(len(tokenizer), 3, initializer_range=0.3), tokenizer, context=256)
    theirs = Prompting(system="Be brief.", compat="openunlearning")
    texts = [(TEXTS[0][0], answer) for answer in ("Ann", "Anna", "Bob <|eot_id|> Ann")]
    differentiated = Reader(made, theirs, shares=True).gradient_norms(texts)
    for shares in (True, False):
        got = Reader(made, theirs, shares=shares).read(texts)
        usual = Reader(made, replace(theirs, compat=None), shares=shares).read(texts)
        for i, (query, answer) in enumerate(texts):
            joined = theirs.join(tokenizer, query.text, answer)
            prompt, ids = joined.prompt, joined.answer
            assert prompt.count(end) == 2
            assert got[i].token_ids == usual[i].token_ids == ids
            given = torch.tensor([[*prompt, *ids]])
            logits = made.model(input_ids=given, attention_mask=given.ne(end).long()).logits[0]
            laws = logits[len(prompt) - 1 : -1].double().log_softmax(-1)
            wanted = laws[range(len(ids)), ids].detach().numpy()
            np.testing.assert_allclose(got[i].logprobs, wanted, rtol=0, atol=1e-5)
            assert np.abs(got[i].logprobs - usual[i].logprobs).max() > 0.01
            parameters = list(made.model.parameters())
            gradients = torch.autograd.grad(-laws[range(len(ids) - 1), ids[:-1]].mean(), parameters)
            norm = np.mean([float(gradient.norm()) for gradient in gradients])
            assert differentiated[i] == pytest.approx(norm, rel=1e-4)


def test_a_tokenizer_without_a_pad_token_hides_its_end() -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.pad_token = None
    assert Prompting(compat="openunlearning").hidden_token_id(tokenizer) == tokenizer.eos_token_id
    assert Prompting().hidden_token_id(tokenizer) is None


def test_rows_of_like_length_go_together_the_longest_first() -> None:
    made = llama()
    lengths = {"red": 2, "blue": 16, "green": 15, "sky": 15, "sea": 17, "Ann": 2}
    texts = [
        (Query(id=word, prompt_id=word, text=f"who {word}"), " ".join(["sea"] * length))
        for word, length in lengths.items()
    ]
    reader, shapes = engine(made), forwarded(made.model)
    got = reader.read(texts)
    assert shapes == [(4, 4 + 17), (2, 4 + 2)]
    for reading, (query, answer) in zip(got, texts, strict=True):
        same(reading, alone(made, query, answer))


@pytest.mark.parametrize(("logits", "tokens"), [(14 * 4, 1 << 12), (1 << 26, 20), (1, 1)])
def test_small_batches_give_the_same_and_keep_their_bounds(logits: int, tokens: int) -> None:
    made = llama()
    assert made.model.config.vocab_size == 14
    shapes, kept = forwarded(made.model), []
    made.model.register_forward_hook(lambda _, args, out: kept.append(out.logits.numel()))
    reader = Reader(made, PROMPTING, shares=True, logits=logits, tokens=tokens)
    for got, (query, answer) in zip(reader.read(TEXTS), TEXTS, strict=True):
        same(got, alone(made, query, answer))
    longest = max(len(answer.split()) for answers in PROMPTS.values() for answer in answers) + 1
    read = [(shape, size) for shape, size in zip(shapes, kept, strict=True)][: -len(TEXTS)]
    assert len(read) > 1
    for (rows, width), size in read:
        assert rows == 1 or rows * width <= tokens
        assert rows == 1 or size <= logits
        assert size <= max(logits, longest * 14)


def test_end_tokens_that_are_also_padding_are_read() -> None:
    """A mask by `ids != pad` would hide them."""
    tokenizer = tiny_tokenizer(pad_token="</s>")
    tokenizer.add_tokens([AddedToken("</s>", special=True)])
    made = tiny_loaded(llama().model, tokenizer)
    query = Query(id="q", prompt_id="q", text="</s> who </s> wrote </s>")
    assert PROMPTING.encode(tokenizer, query.text).count(EOS) == 3
    texts = [(query, "red </s> sky"), (TEXTS[-1][0], "sea </s>"), (query, "red")]
    for got, (wanted, answer) in zip(engine(made).read(texts), texts, strict=True):
        same(got, alone(made, wanted, answer))


def change_logits(model: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    def hook(_: Any, args: Any, out: Any) -> Any:
        out.logits = change(out.logits)
        return out

    model.register_forward_hook(hook)


def test_tokens_of_probability_zero_take_no_part_in_the_moments() -> None:
    made = llama()
    never = made.tokenizer.convert_tokens_to_ids("red")
    ruled_out = torch.zeros(14).index_fill(0, torch.tensor([never]), -torch.inf)
    change_logits(made.model, lambda logits: logits + ruled_out)
    got = engine(made).read(TEXTS)
    for reading, (query, answer) in zip(got, TEXTS, strict=True):
        same(reading, alone(made, query, answer))
        at = [token == never for token in reading.token_ids]
        assert np.array_equal(np.isneginf(reading.logprobs), at)


def test_of_equal_logits_the_lowest_id_is_the_top() -> None:
    made = llama()
    change_logits(made.model, torch.zeros_like)
    tied = torch.zeros(14).index_fill(0, torch.tensor([EOS, 4]), 1.0)
    change_logits(made.model, lambda logits: logits + tied)
    (reading,) = engine(made).read([(TEXTS[0][0], "Answer: red")])
    assert reading.token_ids == (4, 7, EOS)
    assert reading.top.tolist() == [False, False, True]


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_unusable_logits_are_refused_with_the_query(bad: float) -> None:
    made = llama()
    reader = engine(made)
    change_logits(made.model, lambda logits: logits.index_fill(-1, torch.tensor([5]), bad))
    with pytest.raises(ModelError, match="infinite for the answer 'red sky' to query 'who wrote'"):
        reader.read(TEXTS)
    with pytest.raises(ModelError, match="gradient for the answer to query 'who wrote'"):
        reader.gradient_norms(TEXTS[:1])


def test_a_pair_beyond_the_context_is_refused_first() -> None:
    made = replace(llama(), context_length=8)
    shapes = forwarded(made.model)
    with pytest.raises(InputError, match=r"'who wrote' has 4 prompt tokens and 8 answer tokens"):
        Reader(made, PROMPTING, shares=True).read(TEXTS)
    assert shapes == []
    fits = [(TEXTS[0][0], "blue sky sea")]
    assert len(Reader(made, PROMPTING, shares=True).read(fits)[0].token_ids) == 4


@BOTH_KINDS
def test_gradient_norms_are_those_of_plain_backward_passes() -> None:
    made = llama(tie_word_embeddings=True)
    texts = [(query, answer) for query, answer in TEXTS if answer]
    wanted = []
    for query, answer in texts:
        prompt = PROMPTING.encode(made.tokenizer, query.text)
        ids = made.tokenizer.encode(answer, add_special_tokens=False)
        labels = torch.tensor([[-100] * len(prompt) + ids])
        made.model.zero_grad()
        made.model(input_ids=torch.tensor([[*prompt, *ids]]), labels=labels).loss.backward()
        norms = [p.grad.norm() for p in made.model.parameters()]
        wanted.append(float(torch.stack(norms).mean()))
    made.model.zero_grad(set_to_none=True)
    assert engine(made).gradient_norms(texts) == pytest.approx(wanted, rel=1e-5)
    assert all(p.grad is None for p in made.model.parameters())
    with pytest.raises(InputError, match="has only an end token"):
        engine(made).gradient_norms([(TEXTS[0][0], "")])
