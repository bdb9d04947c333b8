"""Which tokens are read and scored, by position; and what hiding the pad token's id does."""

from __future__ import annotations

import pytest

from offline_tokenizers import LLAMA_3, byte_level
from residua.engines.masks import masks
from residua.engines.prompting import Prompting
from residua.errors import InputError

TOKENIZER = byte_level(LLAMA_3, "<|eot_id|>")
PROMPT = Prompting(system="Be brief.").encode(TOKENIZER, "who?")
ANSWER = Prompting().encode_answer(TOKENIZER, "Ann")
END = TOKENIZER.pad_token_id


def test_every_token_is_read_and_the_answer_scored_to_its_end() -> None:
    found = masks(PROMPT, ANSWER)
    tokens = [*PROMPT, *ANSWER]
    assert found.read == (1,) * len(tokens)
    assert [tokens[i] for i in found.scored] == ANSWER
    assert tokens[found.scored[-1]] == END
    assert masks(PROMPT, ANSWER, pad_token_id=END) == found


def test_openunlearning_hides_ends_of_turns_inside_the_prompt() -> None:
    assert PROMPT.count(END) == 2
    found = masks(PROMPT, ANSWER, compat="openunlearning", pad_token_id=END)
    hidden = [i for i, read in enumerate(found.read) if not read]
    assert hidden == [i for i, token in enumerate([*PROMPT, *ANSWER]) if token == END]
    assert found.scored == masks(PROMPT, ANSWER).scored


def test_what_cannot_be_masked_is_refused() -> None:
    with pytest.raises(InputError, match="prompt has no token"):
        masks([], ANSWER)
    with pytest.raises(InputError, match="give `pad_token_id`"):
        masks(PROMPT, ANSWER, compat="openunlearning")
