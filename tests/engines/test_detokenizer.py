"""What an open event says its outputs begin with: of every continuation, under every tokenizer.

Small tokenizers of each kind share their alphabet: an emoji, accents and Chinese over several
tokens, bytes that are no UTF-8, a newline, special tokens. Random models over them are explored,
and each open event's ids are continued at random.
"""

from __future__ import annotations

import random
from functools import cache
from itertools import product

import pytest
from tokenizers import Tokenizer, decoders
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from transformers import PreTrainedTokenizerFast

from leakbound.engines import Prompting
from leakbound.engines.hf import TransformersEngine
from leakbound.engines.loading import LoadedModel
from leakbound.engines.tokens import Detokenizer
from leakbound.types import Decoding, Effort, Exploration, Query
from suites import slow_but
from tiny import WORDS, tiny_llama, tiny_tokenizer

SPECIAL = ["<pad>", "<unk>", "</s>", "<x>"]
EOS = 2
UNKNOWN = 1  # ids of a model that its tokenizer has not: some models' vocabularies are padded
BYTES = [f"<0x{byte:02X}>" for byte in (0xC3, 0xA9, 0xE5, 0xAD, 0x97, 0x0A, 0x41)]
PIECES = ["▁", "▁a", "b", "字", "A\n"]
STOPS = [(), ("\n",), ("ab",), ("b字A", "é")]

Ids = tuple[int, ...]


def of(words: list[str], decoder: decoders.Decoder) -> PreTrainedTokenizerFast:
    backend = Tokenizer(BPE({word: i for i, word in enumerate([*SPECIAL, *words])}, []))
    backend.decoder = decoder
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", unk_token="<unk>", eos_token="</s>"
    )
    tokenizer.add_tokens(["<x>"], special_tokens=True)
    return tokenizer


def byte_level() -> PreTrainedTokenizerFast:
    """As GPT-2, Llama 3 and Qwen: every token is a string of bytes, some of them no UTF-8."""
    ((spelt, _),) = ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(
        "😀é字\n ab"
    )
    emoji, accented, chinese, (newline, blank, a, b) = spelt[:4], spelt[4:6], spelt[6:9], spelt[9:]
    words = [emoji[:2], emoji[2:], *accented, chinese[:2], chinese[2:], newline, blank + a, b]
    return of([*words, accented[1] + b, b + emoji[:1], "A"], decoders.ByteLevel())


def byte_fallback() -> PreTrainedTokenizerFast:
    """As Llama 2, Gemma and Mistral: what the vocabulary lacks is spelt in byte tokens."""
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    return of([*BYTES, *PIECES], decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)]))


TOKENIZERS = {
    "byte level": byte_level,
    "byte fallback": byte_fallback,
    "metaspace": lambda: of(PIECES, decoders.Metaspace()),
    "word pieces": lambda: of(["a", "##b", "b", ".", "##字"], decoders.WordPiece()),
    "words": lambda: tiny_tokenizer(WORDS),
}


def text_of(tokenizer: PreTrainedTokenizerFast, ids: Ids, stop: tuple[str, ...]) -> str:
    ids = ids[: ids.index(EOS)] if EOS in ids else ids
    text: str = tokenizer.decode(ids, skip_special_tokens=True)
    return text[: min((text.index(s) for s in stop if s in text), default=len(text))]


def engine(name: str) -> TransformersEngine:
    tokenizer = TOKENIZERS[name]()
    model = tiny_llama(len(tokenizer) + UNKNOWN)
    loaded = LoadedModel(model, tokenizer, frozenset([EOS]), 128, {})
    return TransformersEngine(loaded, Prompting(template="{question}"))


@cache
def open_events(name: str, stop: tuple[str, ...]) -> dict[Ids, str]:
    """Texts of prefixes of one to three tokens: an almost uniform law is explored by length."""
    made = engine(name)
    tokenizer, size = made.loaded.tokenizer, made.loaded.model.config.vocab_size
    query = Query(id="q", prompt_id="q", text="ab")
    texts: dict[Ids, str] = {}
    for forwards in (1, size - 1, 6 * size):
        (found,) = made.explore(
            [query],
            Decoding(max_new_tokens=12, stop=stop),
            Effort(mode="exact", forwards=forwards),
            lambda _, texts: [(0.0, float(not ended)) for _, ended in texts],
        )
        assert isinstance(found, Exploration)
        texts |= {event.token_ids: event.text for event in found.events if not event.ended}
        ended = [event for event in found.events if event.ended]
        assert all(event.text == text_of(tokenizer, event.token_ids, stop) for event in ended)
    assert {len(ids) for ids in texts} == {1, 2, 3}
    return texts


QUICK = [  # every tokenizer, every stop
    ("byte level", ("ab",)),
    ("byte fallback", ("b字A", "é")),
    ("metaspace", ()),
    ("word pieces", ("\n",)),
    ("words", ()),
]


@pytest.mark.parametrize(("name", "stop"), slow_but(QUICK, product(TOKENIZERS, STOPS)), ids=repr)
def test_every_continuation_begins_with_it(name: str, stop: tuple[str, ...]) -> None:
    tokenizer, rng = TOKENIZERS[name](), random.Random(0)
    vocabulary = range(len(tokenizer) + UNKNOWN)
    for ids, text in open_events(name, stop).items():
        for length in (0, 1, 1, 2, 3, 4, 6):
            longer = (*ids, *rng.choices(vocabulary, k=length))
            assert text_of(tokenizer, longer, stop).startswith(text), longer


@pytest.mark.parametrize(
    ("name", "stop", "tokens", "text"),
    [
        # a character that is unfinished, and finished
        ("byte level", (), ["Ġa", "ðŁ"], " a"),
        ("byte level", (), ["ðŁ", "ĺĢ"], "😀"),
        ("byte level", (), ["b", "åŃ"], "b"),
        ("byte level", (), ["åŃ", "Ĺ"], "字"),
        ("byte level", (), ["b", "<x>"], "b"),
        # byte tokens wait for a token that is none
        ("byte fallback", (), ["▁a", "<0x0A>"], "a"),
        ("byte fallback", (), ["<0x0A>", "b"], "\nb"),
        ("byte fallback", (), ["<0x41>", "<x>"], ""),
        ("byte fallback", (), ["<0xC3>", "<0xA9>"], ""),
        ("byte fallback", (), ["字", "b"], "字b"),
        # the first blank is dropped, and stays so
        ("byte fallback", (), ["▁", "▁a"], " a"),
        ("metaspace", (), ["▁a", "▁a"], "a a"),
        # what may begin a stop string waits too
        ("byte level", ("ab",), ["Ġa", "A"], " a"),
        ("byte level", ("\n",), ["Ġa", "b"], " ab"),
        ("byte fallback", ("b字A", "é"), ["b", "字"], ""),
        ("byte fallback", ("b字A", "é"), ["字", "<x>"], ""),
        ("words", (), ["red", "sky"], "red sky"),
    ],
)
def test_what_is_settled(name: str, stop: tuple[str, ...], tokens: list[str], text: str) -> None:
    ids = tuple(TOKENIZERS[name]().convert_tokens_to_ids(tokens))
    assert open_events(name, stop)[ids] == text


@pytest.mark.parametrize("name", TOKENIZERS)
def test_every_continuation_of_longer_prefixes_begins_with_it(name: str) -> None:
    made, rng = engine(name), random.Random(1)
    detokenizer = Detokenizer(made.loaded.tokenizer, made.loaded.eos_token_ids)
    others = [i for i in range(len(made.loaded.tokenizer) + UNKNOWN) if i != EOS]
    for _ in range(100):
        whole = tuple(rng.choices(others, k=8))
        for length in range(len(whole)):
            text = detokenizer.settled(whole[:length], ())
            assert text_of(made.loaded.tokenizer, whole, ()).startswith(text), whole
