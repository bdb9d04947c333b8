"""One tokenisation of prompt and answer, split where the answer begins."""

from __future__ import annotations

from typing import Any

import pytest
from transformers import PreTrainedTokenizer

from chatting import query
from leakbound.engines import Prompting
from leakbound.engines.hf import TransformersEngine
from leakbound.engines.loading import LoadedModel
from leakbound.engines.tokens import split_at
from leakbound.errors import InputError
from leakbound.types import Decoding, Prompt, Query
from leakbound.unlearning.examples import Encoder
from offline_tokenizers import CHATML, byte_level, merging, sentence_piece
from tiny import tiny_llama

ASKED, SAID = "who wrote the sea?", "Ann wrote it"
FINISHED = f"Question: {ASKED}\nAnswer: {SAID}"
WHO = Query(id="who", prompt_id="who", text=ASKED)


class Letters(PreTrainedTokenizer):
    """A token a letter, told without offsets; what `merged` names is one token."""

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
        found = [token for piece in text.split(self.merged) for token in (*piece, self.merged)]
        return found[:-1]

    def _convert_token_to_id(self, token: str) -> int:
        return self.ids[token]


def engine(tokenizer: Any, prompting: Prompting | None = None) -> TransformersEngine:
    end = tokenizer.eos_token_id
    model = tiny_llama(len(tokenizer), 1, eos_token_id=end, max_position_embeddings=256)
    loaded = LoadedModel(model, tokenizer, frozenset([end]), 256, {"weights": "made here"})
    return TransformersEngine(loaded, prompting)


@pytest.mark.parametrize("tokenizer", [byte_level(), sentence_piece()], ids=["bytes", "pieces"])
def test_training_reading_forcing_and_generation_share_the_tokens_of_one_text(
    tokenizer: Any,
) -> None:
    """The tokens that a model fine-tuned on whole texts has learnt."""
    whole = [*tokenizer(FINISHED)["input_ids"], tokenizer.eos_token_id]
    example = Encoder(tokenizer, Prompting()).row(Prompt(id="who", question=ASKED, answer=SAID))
    assert example.tokens == whole
    made = engine(tokenizer)
    (read,), (forced,) = made.read([(WHO, SAID)]), made.force([(WHO, SAID)], Decoding())
    assert forced is not None
    assert example.answer == read.token_ids == forced.token_ids
    assert example.prompt == made.prompt_ids(WHO)
    assert read.logprobs.sum() == pytest.approx(forced.logprob, abs=1e-5)
    assert tokenizer.decode(example.answer, skip_special_tokens=True).strip() == SAID


def test_a_blank_at_the_boundary_is_the_answers_whoever_brings_it() -> None:
    tokenizer, rule = byte_level(), Prompting()
    joined = rule.join(tokenizer, ASKED, SAID)
    assert tokenizer.decode(joined.prompt) == f"Question: {ASKED}\nAnswer:"
    assert tokenizer.decode(joined.answer) == f" {SAID}<|im_end|>"
    assert rule.join(tokenizer, ASKED, f" {SAID}") == joined
    assert rule.join(tokenizer, query(ASKED, "Yes: "), SAID).answer == joined.answer
    empty = rule.join(tokenizer, ASKED, "")
    assert (empty.prompt, empty.answer) == (joined.prompt, (tokenizer.eos_token_id,))


def test_a_server_is_sent_the_prompt_without_its_trailing_blank() -> None:
    tokenizer, rule = byte_level(), Prompting()
    assert rule.text(ASKED) == f"Question: {ASKED}\nAnswer:"
    shown = query(ASKED, "Yes: ", (("who?", "Ann"),))
    assert rule.text(shown) == tokenizer.decode(rule.encode(tokenizer, shown))
    assert Prompting(compat="openunlearning").text(ASKED).endswith("Answer: ")


def test_an_end_token_is_added_where_it_is_missing_alone() -> None:
    tokenizer = byte_level()
    end = tokenizer.eos_token_id
    for said, ends in (("Ann", 1), ("Ann<|im_end|>", 1), ("Ann<|im_end|> Bob", 2)):
        ids = Prompting().join(tokenizer, ASKED, said).answer
        assert (ids.count(end), ids[-1]) == (ends, end)


def test_a_chat_is_read_up_to_the_end_of_the_answers_turn() -> None:
    tokenizer = byte_level(CHATML)
    joined = Prompting().join(tokenizer, query(ASKED, "", (("who?", "Ann"),)), SAID)
    turns = [("user", "who?"), ("assistant", "Ann"), ("user", ASKED), ("assistant", SAID)]
    whole = tokenizer.apply_chat_template(
        [{"role": role, "content": text} for role, text in turns], return_dict=False
    )
    assert whole[: len(joined.prompt + joined.answer)] == [*joined.prompt, *joined.answer]
    assert tokenizer.decode(whole[len(joined.prompt + joined.answer) :]) == "\n"
    assert list(joined.prompt) == Prompting().encode(
        tokenizer, query(ASKED, "", (("who?", "Ann"),))
    )


@pytest.mark.parametrize("said", ["{{ '<think></think>' + m['content'] }}", "{{ 'so' }}", ""])
def test_a_template_that_rewrites_answers_is_left_where_generation_would_not_go(said: str) -> None:
    tokenizer = byte_level(
        "{% for m in messages %}{% if m['role'] == 'user' %}{{ m['content'] }}{% else %}"
        "{{ '<|im_start|>' }}" + said + "{{ '<|im_end|>' }}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>So ' }}{% endif %}"
    )
    joined = Prompting().join(tokenizer, ASKED, SAID)
    text = tokenizer.decode([*joined.prompt, *joined.answer])
    assert text == f"{ASKED}<|im_start|>So {SAID}<|im_end|>"
    assert Prompting().output(tokenizer, ASKED, SAID) == joined.answer


def test_a_token_across_the_boundary_is_the_answers_and_nothing_is_forced_by_it() -> None:
    """It is scored and trained on as a whole; the sampled prompt ends otherwise."""
    tokenizer = merging(": A")
    made = engine(tokenizer)
    joined = made.prompting.join(tokenizer, ASKED, "Ann")
    assert tokenizer.decode(joined.prompt).endswith("Answer")
    assert tokenizer.decode(joined.answer).startswith(": A")
    assert tokenizer.decode(made.prompt_ids(WHO)).endswith("Answer:")
    other = Query(id="other", prompt_id="other", text="who?")
    forced = made.force([(WHO, "Ann"), (other, "Bob"), (WHO, "Bob")], Decoding())
    assert [one is None for one in forced] == [True, False, False]
    (note,) = made.usage.notes
    assert "nothing is proved" in note
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
    with pytest.raises(InputError, match=r"tells no offsets and merges .*Answer:' with ' Ann"):
        split_at(Letters(": A"), FINISHED, at)


def test_an_answer_that_takes_the_whole_prompt_is_refused() -> None:
    tokenizer = merging("w? A")
    with pytest.raises(InputError, match="'Ann' leaves 0 tokens of its prompt"):
        Prompting(template="{question} ").join(tokenizer, "w?", "Ann")
