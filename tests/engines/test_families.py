"""Prompts by the table of model families, on tokenizers of the kinds that models have."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from chatting import query
from leakbound.engines.prompting import Prompting
from leakbound.engines.templates import DATE_STRING, family_of
from offline_tokenizers import CHATML, LLAMA_2, LLAMA_3, byte_level, sentence_piece

SYSTEM = "Be kind."
TOFU = Prompting(default_system=SYSTEM)
SHOTS = (("who wrote?", "Ann"), ("who?", "the sea"))

# name: tokenizer, family, the prompt of "who wrote?", the end of an answer
TABLE: dict[str, tuple[Any, str, str, str]] = {
    "llama-3": (
        byte_level(LLAMA_3, "<|eot_id|>"),
        "llama-3",
        (
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n"
            "Today Date: 10 Apr 2025\n\nBe kind.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nwho wrote?<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n"
        ),
        "<|eot_id|>",
    ),
    "chatml": (
        byte_level(CHATML),
        "chat",
        (
            "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nwho wrote?<|im_end|>\n"
            "<|im_start|>assistant\n"
        ),
        "<|im_end|>",
    ),
    "llama-2-chat": (
        sentence_piece(LLAMA_2),
        "llama-2-chat",
        "<s>[INST] who wrote? [/INST]",
        "</s>",
    ),
    "byte-level base": (
        byte_level(eos="<|eot_id|>"),
        "base",
        "Question: who wrote?\nAnswer:",
        "<|eot_id|>",
    ),
    "sentence-piece base": (
        sentence_piece(),
        "base",
        "<s>Question: who wrote?\nAnswer:",
        "</s>",
    ),
}


@pytest.fixture(params=TABLE)
def row(request: pytest.FixtureRequest) -> tuple[Any, str, str, str]:
    return TABLE[request.param]


def text(tokenizer: Any, ids: list[int]) -> str:
    """What the ids spell, with a blank after special tokens where the pieces mark one there."""
    return str(tokenizer.decode(ids, clean_up_tokenization_spaces=False)).replace("<s> ", "<s>")


def test_every_family_is_asked_as_the_table_says(row: tuple[Any, str, str, str]) -> None:
    tokenizer, family, prompt, _ = row
    assert text(tokenizer, TOFU.encode(tokenizer, "who wrote?")) == prompt
    assert family_of(tokenizer).name == family


def test_special_tokens_of_the_template_are_one_token_each(row: tuple[Any, str, str, str]) -> None:
    tokenizer, _, prompt, _ = row
    special = [t.content for t in tokenizer.added_tokens_decoder.values() if t.special]
    ids = TOFU.encode(tokenizer, "who wrote?")
    for mark in special:
        assert ids.count(tokenizer.convert_tokens_to_ids(mark)) == prompt.count(mark)


def test_an_answer_ends_with_the_end_of_its_turn(row: tuple[Any, str, str, str]) -> None:
    tokenizer, _, _, end = row
    *answer, last = TOFU.join(tokenizer, "who?", "Ann wrote").answer
    assert last == tokenizer.convert_tokens_to_ids(end)
    assert text(tokenizer, answer).strip() == "Ann wrote"
    assert tokenizer.bos_token_id is None or tokenizer.bos_token_id not in answer


def test_the_finished_text_goes_on_from_the_prompt(row: tuple[Any, str, str, str]) -> None:
    tokenizer, _, _, end = row
    prompt, last = TOFU.encode(tokenizer, "who wrote?"), tokenizer.convert_tokens_to_ids(end)
    joined = TOFU.join(tokenizer, "who wrote?", "Ann wrote the sea")
    assert list(joined.prompt) == prompt
    assert TOFU.output(tokenizer, "who wrote?", "Ann wrote the sea") == joined.answer
    opened = TOFU.join(tokenizer, query("who wrote?", "Ann "), "wrote the sea")
    assert opened.prompt + opened.answer == joined.prompt + joined.answer
    assert (
        len(opened.prompt) == len(TOFU.encode(tokenizer, query("who wrote?", "Ann "))) > len(prompt)
    )
    assert joined.answer.count(last) == 1


@pytest.mark.parametrize(
    ("name", "prompt"),
    [
        (
            "sentence-piece base",
            (
                "<s>Question: who wrote?\nAnswer: Ann\n\nQuestion: who?\nAnswer: the sea\n\n"
                "Question: Who?\nAnswer:"
            ),
        ),
        (
            "chatml",
            (
                "<|im_start|>system\nBe kind.<|im_end|>\n"
                "<|im_start|>user\nwho wrote?<|im_end|>\n<|im_start|>assistant\nAnn<|im_end|>\n"
                "<|im_start|>user\nwho?<|im_end|>\n<|im_start|>assistant\nthe sea<|im_end|>\n"
                "<|im_start|>user\nWho?<|im_end|>\n<|im_start|>assistant\n"
            ),
        ),
    ],
)
def test_examples_come_before_the_question(name: str, prompt: str) -> None:
    tokenizer = TABLE[name][0]
    assert text(tokenizer, TOFU.encode(tokenizer, query("Who?", "", SHOTS))) == prompt


def test_a_system_message_that_was_asked_for_reaches_every_chat_family() -> None:
    tokenizer = TABLE["llama-2-chat"][0]
    asked = Prompting(system="Be brief.", default_system=SYSTEM)
    assert "<<SYS>>\nBe brief.\n<</SYS>>" in text(tokenizer, asked.encode(tokenizer, "who?"))
    silent = Prompting(system="", default_system=SYSTEM)
    chatml = TABLE["chatml"][0]
    assert text(chatml, silent.encode(chatml, "who?")).startswith("<|im_start|>user")


def test_the_description_tells_what_was_done() -> None:
    assert TOFU.describe(TABLE["llama-2-chat"][0]) == {
        "template": None,
        "system": None,
        "chat": True,
        "compat": None,
        "family": "llama-2-chat",
        "tokenisation": "joint",
    }
    assert TOFU.describe(TABLE["llama-3"][0])["system"] == SYSTEM
    assert Prompting(chat=False).describe(TABLE["chatml"][0])["chat"] is False


def test_a_model_that_lies_on_this_machine() -> None:
    folder = os.environ.get("LEAKBOUND_TEST_SMOLLM2", "")
    if not Path(folder, "tokenizer_config.json").is_file():
        pytest.skip("no LEAKBOUND_TEST_SMOLLM2")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    prompt = text(tokenizer, TOFU.encode(tokenizer, query("Who?", "", SHOTS)))
    assert prompt.startswith(f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\nwho wrote")
    assert prompt.endswith("<|im_start|>user\nWho?<|im_end|>\n<|im_start|>assistant\n")
    assert DATE_STRING not in prompt
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert TOFU.join(tokenizer, "Who?", "Ann").answer[-1] == end
