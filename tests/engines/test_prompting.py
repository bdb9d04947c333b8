"""Prompts and answers as token ids, for plain and for chat models."""

from __future__ import annotations

import pytest
from tokenizers.processors import TemplateProcessing

from chatting import query
from leakbound.engines.prompting import Prompting
from leakbound.engines.templates import DATE_STRING
from leakbound.errors import InputError, ModelError
from leakbound.types import from_json, object_of
from tiny import tiny_tokenizer

CHAT = (
    "{% for m in messages %}{{ '<s> ' + m['role'] + ' ' + m['content'] + ' <e> ' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<s> assistant ' }}{% endif %}"
)
NO_SYSTEM = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}x"


def plain(*extra: str, **settings: object):
    return tiny_tokenizer(["Question:", "Answer:", "who", "Ann", "{x}", *extra], **settings)


def chat(template: str = CHAT):
    tokenizer = plain("user", "system", "assistant", "calm", DATE_STRING.split()[0])
    tokenizer.add_special_tokens({"additional_special_tokens": ["<s>", "<e>"]})
    tokenizer.chat_template = template
    return tokenizer


def words(tokenizer, ids: list[int]) -> str:
    return " ".join(tokenizer.convert_ids_to_tokens(ids))


def with_bos(*, and_eos: bool = False):
    tokenizer = plain(bos_token="<unk>")
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<unk> $A </s>" if and_eos else "<unk> $A",
        special_tokens=[("<unk>", 1), ("</s>", 2)],
    )
    return tokenizer


def test_base_template_is_the_default() -> None:
    tokenizer = plain()
    assert words(tokenizer, Prompting().encode(tokenizer, "who")) == "Question: who Answer:"


def test_template_keeps_other_braces() -> None:
    tokenizer = plain()
    prompting = Prompting(template="{x} {question}")
    assert words(tokenizer, prompting.encode(tokenizer, "{x} who")) == "{x} {x} who"


def test_template_without_question_is_refused() -> None:
    with pytest.raises(InputError, match=r"must contain \{question\}"):
        Prompting(template="Answer this: {q}")


@pytest.mark.parametrize("and_eos", [False, True])
def test_bos_is_kept_and_nothing_else_is_added(and_eos: bool) -> None:
    tokenizer = with_bos(and_eos=and_eos)
    ids = Prompting(template="{question} ").encode(tokenizer, query("who", "Ann"))
    assert words(tokenizer, ids) == "<unk> who Ann"


def test_answer_ends_with_eos_and_has_no_bos() -> None:
    tokenizer = with_bos()
    assert words(tokenizer, Prompting().join(tokenizer, "who", "Ann").answer) == "Ann </s>"


def test_chat_template_with_system_and_generation_prompt() -> None:
    tokenizer = chat()
    prompting = Prompting(template="{question}", system="calm")
    expected = "<s> system calm <e> <s> user who <e> <s> assistant"
    assert words(tokenizer, prompting.encode(tokenizer, "who")) == expected
    assert words(tokenizer, prompting.encode(tokenizer, query("who", " Ann"))) == expected + " Ann"


def test_chat_without_system_message_sends_none() -> None:
    tokenizer = chat()
    assert words(tokenizer, Prompting().encode(tokenizer, "who")).startswith("<s> user who <e>")


def test_chat_answer_ends_with_the_end_of_turn() -> None:
    tokenizer = chat()
    assert words(tokenizer, Prompting().join(tokenizer, "who", "Ann").answer) == "Ann <e>"


def test_chat_template_without_end_of_turn_ends_with_eos() -> None:
    tokenizer = chat("{% for m in messages %}{{ m['content'] + ' ' }}{% endfor %}")
    assert words(tokenizer, Prompting().join(tokenizer, "who", "Ann").answer) == "Ann </s>"


def test_chat_can_be_switched_off() -> None:
    tokenizer = chat()
    prompting = Prompting(chat=False)
    assert words(tokenizer, prompting.encode(tokenizer, "who")) == "Question: who Answer:"
    assert words(tokenizer, prompting.join(tokenizer, "who", "Ann").answer) == "Ann </s>"


def test_chat_date_is_pinned() -> None:
    tokenizer = chat("{{ date_string }} {{ messages[0].content }}")
    assert words(tokenizer, Prompting().encode(tokenizer, "who")).startswith("10 ")


def test_chat_is_refused_without_a_template() -> None:
    with pytest.raises(InputError, match="no chat template"):
        Prompting(chat=True).encode(plain(), "who")


def test_refused_system_message_is_explained() -> None:
    with pytest.raises(InputError, match="Try without a system message"):
        Prompting(system="calm").encode(chat(NO_SYSTEM), "who")


def test_tokenizer_without_end_token_is_refused() -> None:
    with pytest.raises(ModelError, match="no end token"):
        Prompting().join(plain(eos_token=None), "who", "Ann")


def test_to_dict_gives_the_same_prompting_back() -> None:
    prompting = Prompting(template="Q {question}", system="s", chat=False)
    assert from_json(Prompting, object_of(prompting)) == prompting
