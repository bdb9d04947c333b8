"""From generated ids to text: what a completion says, and what of an unfinished one is settled."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import Any

_UNFINISHED = "\ufffd"  # what decodes from the first bytes of a character
_BYTE = re.compile(r"<0x[0-9A-Fa-f]{2}>")  # a token of a tokenizer that falls back to bytes


class Detokenizer:
    """Texts of a model's generated ids; end tokens are no part of them, special or not.

    `stop` are the strings at which a completion ends; what comes from the first of them on is no
    part of it.
    """

    def __init__(self, tokenizer: Any, ends: Collection[int]) -> None:
        self._tokenizer, self._ends = tokenizer, ends

    def text(self, ids: Sequence[int], stop: Sequence[str]) -> str:
        """The completion that these ids, up to its end, are."""
        return _before(self._decode(ids), stop)

    def stopped(self, stop: Sequence[str]) -> Callable[[tuple[int, ...]], bool]:
        """True of ids whose text holds a stop string."""
        return lambda ids: any(s in self._decode(ids) for s in stop)

    def settled(self, ids: tuple[int, ...], stop: Sequence[str]) -> str:
        """What every completion begins with that begins with these ids.

        Their last character may be unfinished, and what looks like the beginning of a stop string
        may be cut off.
        """
        reach = max(map(len, stop), default=1) - 1
        return self._decode(self._firm(ids)).rstrip(_UNFINISHED)[: -reach or None]

    def _decode(self, ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(
            [token for token in ids if token not in self._ends],
            skip_special_tokens=True,
            clean_up_tokenization_spaces=False,
        )
        return text

    def _firm(self, ids: tuple[int, ...]) -> tuple[int, ...]:
        """These ids up to the last token whose bytes no later token is decoded with."""
        last = next((n for n in range(len(ids), 0, -1) if ids[n - 1] in self._firm_ids), 0)
        return ids[:last]

    @cached_property
    def _firm_ids(self) -> frozenset[int]:
        """Tokens after which the text before them stands, but for an unfinished character.

        Byte tokens in a row are decoded as one, all to U+FFFD where they are no UTF-8; what decodes
        to nothing, special tokens and unknown ids, does not part them.
        """
        special = {i for i, token in self._tokenizer.added_tokens_decoder.items() if token.special}
        words = self._tokenizer.get_vocab().items()
        return frozenset(i for word, i in words if i not in special and not _BYTE.fullmatch(word))


def _before(text: str, stop: Sequence[str]) -> str:
    """`text` up to the first stop string in it."""
    return text[: min((at for at in map(text.find, stop) if at >= 0), default=len(text))]
