"""From a text to a model's tokens, split where an answer begins, and from generated ids to text."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import Any, TypeAlias

from leakbound.errors import InputError
from leakbound.sampling.outputs import Parts

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


def is_unreadable(tokenizer: Tokenizer, text: str) -> bool:
    """Whether no letter or digit of a text is in a token that the tokenizer knows."""
    ids, unknown = tokenizer.encode(text, add_special_tokens=False), tokenizer.unk_token_id
    if unknown not in ids:
        return not ids
    words = tokenizer.decode([token for token in ids if token != unknown])
    return not any(map(str.isalnum, words))


_UNFINISHED = "\ufffd"  # what decodes from the first bytes of a character
_BYTE = re.compile(r"<0x[0-9A-Fa-f]{2}>")  # a token of a tokenizer that falls back to bytes
# a byte-level tokenizer writes bytes that do not print as the signs from 256 on
_UNPRINTED = [*range(0x21), *range(0x7F, 0xA1), 0xAD]
_WRITTEN = {256 + i: byte for i, byte in enumerate(_UNPRINTED)} | dict.fromkeys(
    _UNPRINTED, "\uffff"
)


def _bytes_of(word: str) -> bytes:
    """The bytes that a byte-level tokenizer's word stands for: its own text, if it is not one."""
    try:
        return word.translate(_WRITTEN).encode("latin-1")
    except UnicodeEncodeError:
        return word.encode()


class Detokenizer:
    """Texts of a model's generated ids; end tokens are no part of them, special or not.

    `stop` are the strings at which a completion ends; what comes from the first of them on is no
    part of it.
    """

    def __init__(self, tokenizer: Any, ends: Collection[int]) -> None:
        self._tokenizer, self._ends = tokenizer, ends

    def parts(self, ids: Sequence[int], stop: Sequence[str]) -> Parts:
        """See `Spells.parts`."""
        text = self._decode(ids)
        ends = (at for at in map(text.find, stop) if at >= 0)
        return Parts(None, text[: min(ends, default=len(text))])

    def stopped(self, stop: Sequence[str]) -> Callable[[tuple[int, ...]], bool]:
        """True of ids whose text holds a stop string."""
        return lambda ids: any(s in self._decode(ids) for s in stop)

    def settled(self, ids: tuple[int, ...], stop: Sequence[str]) -> Parts:
        """See `Spells.settled`.

        Their last character may be unfinished, and what looks like the beginning of a stop string
        may be cut off.
        """
        reach = max(map(len, stop)) - 1 if stop else 0
        # up to the last token whose bytes no later token is decoded with
        last, firm = len(ids), self._firm_ids
        while last and ids[last - 1] not in firm:
            last -= 1
        return Parts(None, self._decode(ids[:last]).rstrip(_UNFINISHED)[: -reach or None])

    def _decode(self, ids: Sequence[int]) -> str:
        if (pieces := self._pieces) is not None:
            return b"".join(map(pieces.__getitem__, ids)).decode(errors="replace")
        text: str = self._tokenizer.decode(
            [token for token in ids if token not in self._ends],
            skip_special_tokens=True,
            clean_up_tokenization_spaces=False,
        )
        return text

    @cached_property
    def _pieces(self) -> defaultdict[int, bytes] | None:
        """The bytes of each token, where texts are these in a row; None where they are not."""
        decoder = getattr(getattr(self._tokenizer, "backend_tokenizer", None), "decoder", None)
        if type(decoder).__name__ != "ByteLevel":
            return None
        words = self._tokenizer.get_vocab().items()
        return defaultdict(
            bytes, {i: _bytes_of(word) for word, i in words if i not in self._silent}
        )

    @cached_property
    def _silent(self) -> frozenset[int]:
        """Tokens that are no part of a text."""
        added = self._tokenizer.added_tokens_decoder.items()
        return frozenset({*self._ends, *(i for i, token in added if token.special)})

    @cached_property
    def _firm_ids(self) -> frozenset[int]:
        """Tokens after which the text before them stands, but for an unfinished character.

        Byte tokens in a row are decoded as one, all to U+FFFD where they are no UTF-8; what decodes
        to nothing, special tokens and unknown ids, does not part them.
        """
        words = self._tokenizer.get_vocab().items()
        return frozenset(
            i for word, i in words if i not in self._silent and not _BYTE.fullmatch(word)
        )
