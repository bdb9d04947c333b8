"""Prompts and answers as token ids, their boundary, and the settled part of generated ids."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizer, PreTrainedTokenizerFast

from leakbound.engines import Prompting
from leakbound.engines.hf import TransformersEngine
from leakbound.engines.tokens import Detokenizer, split_at
from leakbound.errors import InputError, ModelError
from leakbound.study.settings import prompting_of
from leakbound.types import Decoding, Prompt, Query
from leakbound.unlearning.examples import Encoder
from offline_tokenizers import byte_level, merging, sentence_piece
from tiny import WORDS, query, tiny_llama, tiny_loaded, tiny_tokenizer

QUERY, REPLY = "who wrote the sea?", "Ann wrote it"
FINISHED = f"Question: {QUERY}\nAnswer: {REPLY}"
WHO = Query(id="who", prompt_id="who", text=QUERY)


class Letters(PreTrainedTokenizer):
    """A tokenizer with a token per letter and no offsets; `merged` strings are one token."""

    def __init__(self, merged: str = "", **settings: Any) -> None:
        letters = sorted({*FINISHED, *merged})
        self.ids = {token: i for i, token in enumerate([*letters, merged or "?!", "</s>"])}
        self.merged = merged
        super().__init__(eos_token="</s>", **settings)

    @property
    def vocab_size(self) -> int:
        return len(self.ids)

    def get_vocab(self) -> dict[str, int]:
        return dict(self.ids)

    def _tokenize(self, text: str, **_: Any) -> list[str]:
        if not self.merged:
            return list(text)
        got = [token for piece in text.split(self.merged) for token in (*piece, self.merged)]
        return got[:-1]

    def _convert_token_to_id(self, token: str) -> int:
        return self.ids[token]


def engine(tokenizer: Any, prompting: Prompting | None = None) -> TransformersEngine:
    end = tokenizer.eos_token_id
    model = tiny_llama(len(tokenizer), 1, eos_token_id=end, max_position_embeddings=256)
    return TransformersEngine(tiny_loaded(model, tokenizer, ends=[end], context=256), prompting)


@pytest.mark.parametrize("tokenizer", [byte_level(), sentence_piece()], ids=["bytes", "pieces"])
def test_one_text_has_the_same_tokens_everywhere(tokenizer: Any) -> None:
    whole = [*tokenizer(FINISHED)["input_ids"], tokenizer.eos_token_id]
    example = Encoder(tokenizer, Prompting()).row(Prompt(id="who", question=QUERY, answer=REPLY))
    assert example.tokens == whole
    made = engine(tokenizer)
    (read,), (forced,) = made.read([(WHO, REPLY)]), made.force([(WHO, REPLY)], Decoding())
    assert example.answer == read.token_ids == forced.token_ids
    assert example.prompt == made.prompt_ids(WHO)
    assert read.logprobs.sum() == pytest.approx(forced.logprob, abs=1e-5)
    assert tokenizer.decode(example.answer, skip_special_tokens=True).strip() == REPLY


def test_a_blank_at_the_boundary_belongs_to_the_answer() -> None:
    tokenizer, rule = byte_level(), Prompting()
    joined = rule.join(tokenizer, QUERY, REPLY)
    assert tokenizer.decode(joined.prompt) == f"Question: {QUERY}\nAnswer:"
    assert tokenizer.decode(joined.answer) == f" {REPLY}<|im_end|>"
    assert rule.join(tokenizer, QUERY, f" {REPLY}") == joined
    assert rule.join(tokenizer, query(QUERY, "Yes: "), REPLY).answer == joined.answer
    empty = rule.join(tokenizer, QUERY, "")
    assert (empty.prompt, empty.answer) == (joined.prompt, (tokenizer.eos_token_id,))


def test_a_server_is_sent_the_prompt_without_its_trailing_blank() -> None:
    tokenizer, rule = byte_level(), Prompting()
    assert rule.text(QUERY) == f"Question: {QUERY}\nAnswer:"
    shown = query(QUERY, "Yes: ", (("who?", "Ann"),))
    assert rule.text(shown) == tokenizer.decode(rule.encode(tokenizer, shown))
    assert Prompting(compat="openunlearning").text(QUERY).endswith("Answer: ")


def test_an_end_token_is_added_only_where_it_is_missing() -> None:
    tokenizer = byte_level()
    end = tokenizer.eos_token_id
    for shown, ends in (("Ann", 1), ("Ann<|im_end|>", 1), ("Ann<|im_end|> Bob", 2)):
        ids = Prompting().join(tokenizer, QUERY, shown).answer
        assert (ids.count(end), ids[-1]) == (ends, end)


@pytest.mark.parametrize("body", ["{{ '<think></think>' + m['content'] }}", "{{ 'so' }}", ""])
def test_answers_that_a_template_rewrites_stay_as_generated(body: str) -> None:
    tokenizer = byte_level(
        "{% for m in messages %}{% if m['role'] == 'user' %}{{ m['content'] }}{% else %}"
        "{{ '<|im_start|>' }}" + body + "{{ '<|im_end|>' }}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>So ' }}{% endif %}"
    )
    joined = Prompting().join(tokenizer, QUERY, REPLY)
    text = tokenizer.decode([*joined.prompt, *joined.answer])
    assert text == f"{QUERY}<|im_start|>So {REPLY}<|im_end|>"
    assert Prompting().output(tokenizer, QUERY, REPLY) == joined.answer


def test_a_token_across_the_boundary_is_never_forced() -> None:
    """It is scored and trained on as a whole; the sampled prompt ends elsewhere."""
    tokenizer = merging(": A")
    made = engine(tokenizer)
    joined = made.prompting.join(tokenizer, QUERY, "Ann")
    assert tokenizer.decode(joined.prompt).endswith("Answer")
    assert tokenizer.decode(joined.answer).startswith(": A")
    assert tokenizer.decode(made.prompt_ids(WHO)).endswith("Answer:")
    other = Query(id="other", prompt_id="other", text="who?")
    forced = made.force([(WHO, "Ann"), (other, "Bob"), (WHO, "Bob")], Decoding())
    assert [one is None for one in forced] == [True, False, False]
    (note,) = made.usage.notes
    assert "used in proofs" in note
    assert "'who'" in note
    assert "'other'" not in note
    assert made.read([(WHO, "Ann")])[0].token_ids == joined.answer


def test_without_offsets_the_split_is_exact_or_refused() -> None:
    at = FINISHED.index(" Ann")
    assert split_at(Letters(), FINISHED, at) == (
        Letters().encode(FINISHED[:at], add_special_tokens=False),
        Letters().encode(FINISHED[at:], add_special_tokens=False),
    )
    assert len(split_at(Letters("n w"), FINISHED, at)[1]) == len(" Ann wrote it") - 2
    with pytest.raises(InputError, match=r"has no offsets and merges .*Answer:' with ' Ann"):
        split_at(Letters(": A"), FINISHED, at)


def test_an_answer_that_takes_the_whole_prompt_is_refused() -> None:
    tokenizer = merging("w? A")
    with pytest.raises(InputError, match="need at least one token each, got 0 and "):
        Prompting(template="{question} ").join(tokenizer, "w?", "Ann")


SPECIAL = ["<pad>", "<unk>", "</s>", "<x>"]
EOS = 2
UNKNOWN = 1  # an id that the tokenizer lacks: some models' vocabularies are padded
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


def bytes_of_words() -> PreTrainedTokenizerFast:
    """As GPT-2, Llama 3 and Qwen: every token is a string of bytes, some of them invalid UTF-8."""
    ((spelt, _),) = ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(
        "😀é字\n ab"
    )
    emoji, accented, chinese, (newline, blank, a, b) = spelt[:4], spelt[4:6], spelt[6:9], spelt[9:]
    words = [emoji[:2], emoji[2:], *accented, chinese[:2], chinese[2:], newline, blank + a, b]
    return of([*words, accented[1] + b, b + emoji[:1], "A"], decoders.ByteLevel())


def byte_fallback() -> PreTrainedTokenizerFast:
    """As Llama 2, Gemma and Mistral: byte tokens spell what the vocabulary lacks."""
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    return of([*BYTES, *PIECES], decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)]))


TOKENIZERS = {
    "byte level": bytes_of_words,
    "byte fallback": byte_fallback,
    "metaspace": lambda: of(PIECES, decoders.Metaspace()),
    "word pieces": lambda: of(["a", "##b", "b", ".", "##字"], decoders.WordPiece()),
    "words": lambda: tiny_tokenizer(WORDS),
}


def text_of(tokenizer: PreTrainedTokenizerFast, ids: Ids, stop: tuple[str, ...]) -> str:
    ids = ids[: ids.index(EOS)] if EOS in ids else ids
    text: str = tokenizer.decode(ids, skip_special_tokens=True)
    return text[: min((text.index(s) for s in stop if s in text), default=len(text))]


@pytest.mark.parametrize(
    ("name", "stop", "tokens", "text"),
    [
        # a character that is unfinished, and finished
        ("byte level", (), ["Ġa", "ðŁ"], " a"),
        ("byte level", (), ["ðŁ", "ĺĢ"], "😀"),
        ("byte level", (), ["b", "åŃ"], "b"),
        ("byte level", (), ["åŃ", "Ĺ"], "字"),
        ("byte level", (), ["b", "<x>"], "b"),
        # byte tokens wait for a token of another kind
        ("byte fallback", (), ["▁a", "<0x0A>"], "a"),
        ("byte fallback", (), ["<0x0A>", "b"], "\nb"),
        ("byte fallback", (), ["<0x41>", "<x>"], ""),
        ("byte fallback", (), ["<0xC3>", "<0xA9>"], ""),
        ("byte fallback", (), ["字", "b"], "字b"),
        # the first blank is always dropped
        ("byte fallback", (), ["▁", "▁a"], " a"),
        ("metaspace", (), ["▁a", "▁a"], "a a"),
        # a possible beginning of a stop string waits too
        ("byte level", ("ab",), ["Ġa", "A"], " a"),
        ("byte level", ("\n",), ["Ġa", "b"], " ab"),
        ("byte fallback", ("b字A", "é"), ["b", "字"], ""),
        ("byte fallback", ("b字A", "é"), ["字", "<x>"], ""),
        ("words", (), ["red", "sky"], "red sky"),
    ],
)
def test_what_is_settled(name: str, stop: tuple[str, ...], tokens: list[str], text: str) -> None:
    ids = tuple(TOKENIZERS[name]().convert_tokens_to_ids(tokens))
    assert Detokenizer(TOKENIZERS[name](), {EOS}).settled(ids, stop) == (None, text, None)


@pytest.mark.parametrize("stop", STOPS, ids=repr)
@pytest.mark.parametrize("name", TOKENIZERS)
def test_every_continuation_begins_with_what_is_settled(name: str, stop: tuple[str, ...]) -> None:
    tokenizer, rng = TOKENIZERS[name](), random.Random(1)
    spells = Detokenizer(tokenizer, {EOS})
    others = [i for i in range(len(tokenizer) + UNKNOWN) if i != EOS]
    for _ in range(10):
        whole = tuple(rng.choices(others, k=8))
        for length, end in combinations(range(len(whole) + 1), 2):
            text = text_of(tokenizer, whole[:end], stop)
            assert spells.parts((*whole[:end], EOS), stop) == (None, text, None)
            if not spells.stopped(stop)(whole[:length]):  # it may continue
                assert text.startswith(spells.settled(whole[:length], stop).answer), whole


CHAT = (
    "{% for m in messages %}{{ '<s> ' + m['role'] + ' ' + m['content'] + ' <e> ' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<s> assistant ' }}{% endif %}"
)
NO_TURNS = "{% for m in messages %}{{ m['content'] + ' ' }}{% endfor %}"
NO_SYSTEM = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}x"


def plain(template: str | None = None, added: str = "", **settings: object) -> Any:
    """Return the question with a chat template, or the text that the tokenizer adds to."""
    words = ["Question:", "Answer:", "who", "Ann", "{x}", "user", "system", "assistant", "calm"]
    tokenizer = tiny_tokenizer(words, chat_template=template, **settings)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<s>", "<e>"]})
    if added:
        tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
            single=added, special_tokens=[("<unk>", 1), ("</s>", 2)]
        )
    return tokenizer


@pytest.mark.parametrize(
    ("tokenizer", "rule", "queried", "prompt", "answer"),
    [
        (plain(), Prompting("{x} {question} "), "{x} who", "{x} {x} who", "Ann </s>"),
        (plain(CHAT), Prompting(chat=False), "who", "Question: who Answer:", "Ann </s>"),
        (plain(NO_TURNS), Prompting(), "who", "who", "Ann </s>"),
        (
            plain(added="<unk> $A", bos_token="<unk>"),
            Prompting("{question} "),
            query("who", "Ann "),
            "<unk> who Ann",
            "Ann </s>",
        ),
        (
            plain(added="<unk> $A </s>", bos_token="<unk>"),
            Prompting("{question} "),
            query("who", "Ann "),
            "<unk> who Ann",
            "Ann </s>",
        ),
    ],
    ids=["other braces", "no chat", "no end of turn", "a beginning", "a beginning and an end"],
)
def test_nothing_is_added_but_a_beginning_and_an_end(
    tokenizer: Any, rule: Prompting, queried: Any, prompt: str, answer: str
) -> None:
    def spelt(ids: Sequence[int]) -> str:
        return " ".join(tokenizer.convert_ids_to_tokens(ids))

    assert spelt(rule.encode(tokenizer, queried)) == prompt
    assert spelt(rule.join(tokenizer, queried, "Ann").answer) == answer


@pytest.mark.parametrize(
    ("use", "why"),
    [
        (lambda: Prompting(template="Answer this: {q}"), r"must contain \{question\}"),
        (lambda: Prompting(chat=True).encode(plain(), "who"), "no chat template"),
        (
            lambda: Prompting(system="calm").encode(plain(NO_SYSTEM), "who"),
            "Try without a system message",
        ),
        (lambda: Prompting().join(plain(eos_token=None), "who", "Ann"), "no end token"),
    ],
    ids=["no question", "no template", "no system", "no end"],
)
def test_what_makes_no_prompt_is_refused(use: Callable[[], object], why: str) -> None:
    with pytest.raises((InputError, ModelError), match=why):
        use()


def test_a_system_message_that_no_prompt_contains_is_noted() -> None:
    chat = plain("{% for m in messages %}{{ m.content }}{% endfor %}")
    rule = Prompting(system="calm")
    assert (rule.notes(chat), Prompting().notes(plain())) == ([], [])
    deaf = plain("{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}")
    for tokenizer, how in ((plain(), rule), (chat, replace(rule, chat=False)), (deaf, rule)):
        (note,) = how.notes(tokenizer)
        assert note.startswith("the system message is not used")


def test_an_empty_template_is_refused_like_any_without_the_question() -> None:
    with pytest.raises(InputError, match=r"must contain \{question\}, got ''"):
        prompting_of(None, template="")
