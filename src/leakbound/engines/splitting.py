"""A text as tokens, split at a character: exact, or refused."""

from __future__ import annotations

from typing import Any, TypeAlias

from leakbound.errors import InputError

Tokenizer: TypeAlias = Any  # a transformers tokenizer; importing its type costs seconds


def split_at(tokenizer: Tokenizer, text: str, boundary: int) -> tuple[list[int], list[int]]:
    """The tokens of `text`, none added: those that end at `boundary` or before, and the others.

    A token that lies across it is among the others. Where the tokenizer tells no offsets, the first
    are those of `text[:boundary]` by itself; InputError unless the tokens of `text` begin so.
    """
    if tokenizer.is_fast:
        read = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        ids = list(read["input_ids"])
        # By their ends: some tokenizers count the blank before a word out of its offsets.
        ends = (end for _, end in read["offset_mapping"])
        first = next((i for i, end in enumerate(ends) if end > boundary), len(ids))
        return ids[:first], ids[first:]
    ids = list(tokenizer.encode(text, add_special_tokens=False))
    before = list(tokenizer.encode(text[:boundary], add_special_tokens=False))
    if ids[: len(before)] != before:
        raise InputError(
            f"the tokenizer tells no offsets and merges {text[:boundary][-30:]!r} with "
            f"{text[boundary:][:30]!r}, so that prompt and answer cannot be told apart. Use the "
            "model's fast tokenizer (tokenizer.json)."
        )
    return before, ids[len(before) :]
