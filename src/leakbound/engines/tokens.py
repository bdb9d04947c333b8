"""Convert texts to tokens, split where an answer begins, and generated ids to texts."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import Any, TypeAlias

from leakbound.engines.thinking import Begins, ThoughtBudget, marks_of
from leakbound.errors import InputError
from leakbound.types import Decoding, Parts

Tokenizer: TypeAlias = Any  # a transformers tokenizer; importing its type costs seconds


def split_at(tokenizer: Tokenizer, text: str, boundary: int) -> tuple[list[int], list[int]]:
    """Return the tokens of `text` that end at `boundary` or before, and a list of the other tokens.

    A token across the boundary belongs to the second list. For a tokenizer without offsets, the
    first list has the tokens of `text[:boundary]`. Raises InputError if the tokens of `text` do not
    begin with these tokens.
    """
    if tokenizer.is_fast:
        read = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        ids = list(read["input_ids"])
        # Tokens are split by their ends, because some tokenizers exclude the blank before a word
        # from its offsets.
        ends = (end for _, end in read["offset_mapping"])
        first = next((i for i, end in enumerate(ends) if end > boundary), len(ids))
        return ids[:first], ids[first:]
    ids = list(tokenizer.encode(text, add_special_tokens=False))
    before = list(tokenizer.encode(text[:boundary], add_special_tokens=False))
    if ids[: len(before)] != before:
        raise InputError(
            f"the tokenizer has no offsets and merges {text[:boundary][-30:]!r} with "
            f"{text[boundary:][:30]!r}, so prompt and answer cannot be separated. Use the model's "
            "fast tokenizer (tokenizer.json)."
        )
    return before, ids[len(before) :]


_TAIL = 16  # last tokens of a prompt, in which it may open a thought


def words_of(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[str | None]]:
    """See `Tokenizes.words`."""
    ids = [tokenizer.encode(text, add_special_tokens=False) for text in texts]
    words = ((own, tokenizer.convert_ids_to_tokens(own)) for own in ids)
    unknown = tokenizer.unk_token_id
    return [[None if i == unknown else w for i, w in zip(*pair, strict=True)] for pair in words]


_UNFINISHED = "\ufffd"  # the text of the first bytes of a character
_BYTE = re.compile(r"<0x[0-9A-Fa-f]{2}>")  # a byte token of a tokenizer with byte fallback
# a byte-level tokenizer writes bytes that do not print as the signs from 256 on
_UNPRINTED = [*range(0x21), *range(0x7F, 0xA1), 0xAD]
_WRITTEN = {256 + i: byte for i, byte in enumerate(_UNPRINTED)} | dict.fromkeys(
    _UNPRINTED, "\uffff"
)


def _bytes_of(word: str) -> bytes:
    """Return the bytes that a byte-level tokenizer's word represents, or else the word's text."""
    try:
        return word.translate(_WRITTEN).encode("latin-1")
    except UnicodeEncodeError:
        return word.encode()


class Detokenizer:
    """Convert a model's generated ids to texts, without the model's end tokens.

    An output ends at the first stop string in its text, even in a thought, as in vLLM and in
    servers. The stop string and all later text are removed. An output that ends at a stop string
    before its answer began has no answer, and its finish is "error".
    """

    def __init__(self, tokenizer: Any, ends: Collection[int]) -> None:
        self._tokenizer, self._ends = tokenizer, ends
        self._marks = marks_of(tokenizer)

    def parts(self, ids: Sequence[int], stop: Sequence[str], prompt: Sequence[int] = ()) -> Parts:
        """See `Spells.parts`."""
        opened, whole = self._opens(prompt), self._between_marks(ids, self._decode)
        pieces = []
        for mark, text in whole:  # up to the first stop string in it
            end = min((at for at in map(text.find, stop) if at >= 0), default=len(text))
            pieces.append((mark, text[:end]))
        parts = self._marks.compose(pieces, opened, whole=True)
        if parts.answer.strip() or not (opened or len(pieces) > 1):
            return parts
        called = self._marks.call in map(self._marks.ids.get, ids[-1:])
        stopped = any(string in self._decode(ids) for string in stop)
        return parts._replace(finish="tool" if called else "error" if stopped else None)

    def budget(self, decoding: Decoding, prompts: Sequence[Sequence[int]]) -> ThoughtBudget:
        """See `Spells.budget`."""
        if not self._marks.ids:
            raise InputError(
                "`max_thinking_tokens` needs a model with tokens that mark a thought, but this "
                "model has none. Omit it; `max_new_tokens` limits thought and answer together."
            )
        opened = {self._opens(prompt) for prompt in prompts}
        if len(opened) > 1:
            raise InputError(
                "`max_thinking_tokens` needs prompts that all begin a thought, or that all begin "
                "the answer, got both kinds. Omit it, or evaluate each kind separately."
            )
        closing = self._tokenizer.encode(self._marks.closing, add_special_tokens=False)
        return ThoughtBudget(self._marks, closing, self._decode, decoding, opened=opened == {True})

    def stopped(self, stop: Sequence[str]) -> Callable[[tuple[int, ...]], bool]:
        """See `Spells.stopped`."""
        return lambda ids: any(s in self._decode(ids) for s in stop)

    def settled(
        self, ids: tuple[int, ...], stop: Sequence[str], prompt: Sequence[int] = ()
    ) -> Parts:
        """See `Spells.settled`.

        The text excludes an unfinished last character, and an end that may be the beginning of a
        stop string or of a tag.
        """
        tags = self._marks.needed if not self._marks.ids else ()
        reach = max(map(len, (*stop, *tags)), default=1) - 1
        *pieces, (mark, text) = self._between_marks(ids, self._settled)
        pieces.append((mark, text[: -reach or None]))
        return self._marks.compose(pieces, self._opens(prompt), whole=False)

    def _opens(self, prompt: Sequence[int]) -> bool:
        """Return whether the last tokens of a prompt leave a thought open."""
        tail = tuple(prompt[-_TAIL:]) if self._marks.begins else ()
        if not (ids := self._marks.ids):
            return self._marks.opens(self._decode(tail))
        return self._marks.opens("".join(ids.get(i) or self._decode((i,)) for i in tail))

    def _between_marks(
        self, ids: Sequence[int], read: Callable[[Sequence[int]], str]
    ) -> list[tuple[Begins | None, str]]:
        """Return the texts between marks, with the marks' parts; `read` decodes the last text."""
        marks, start, mark = self._marks, 0, None
        pieces: list[tuple[Begins | None, str]] = []
        if marks.begins and not marks.ids:
            first, *rest = re.split(f"({'|'.join(map(re.escape, marks.needed))})", read(ids))
            tagged = zip(rest[::2], rest[1::2], strict=True)
            return [(None, first), *((marks.begins[tag], text) for tag, text in tagged)]
        for at, token in enumerate(ids) if not marks.ids.keys().isdisjoint(ids) else ():
            if token in marks.ids:
                pieces.append((mark, self._decode(ids[start:at])))
                start, mark = at + 1, marks.begins[marks.ids[token]]
        return [*pieces, (mark, read(ids[start:]))]

    def _settled(self, ids: Sequence[int]) -> str:
        """Return the text of these ids that no later token can change."""
        # this text ends with a token that is never decoded together with a later token
        last, firm = len(ids), self._firm_ids
        while last and ids[last - 1] not in firm:
            last -= 1
        return self._decode(ids[:last]).rstrip(_UNFINISHED)

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
        """The bytes of each token, if texts are concatenations of these bytes; else None."""
        decoder = getattr(getattr(self._tokenizer, "backend_tokenizer", None), "decoder", None)
        if type(decoder).__name__ != "ByteLevel":
            return None
        words = self._tokenizer.get_vocab().items()
        return defaultdict(
            bytes, {i: _bytes_of(word) for word, i in words if i not in self._silent}
        )

    @cached_property
    def _silent(self) -> frozenset[int]:
        """The tokens without text."""
        added = self._tokenizer.added_tokens_decoder.items()
        return frozenset({*self._ends, *(i for i, token in added if token.special)})

    @cached_property
    def _firm_ids(self) -> frozenset[int]:
        """The tokens after which earlier text is final, except for an unfinished character.

        Consecutive byte tokens are decoded together, and all become U+FFFD if they are not valid
        UTF-8. Tokens without text (special tokens and unknown ids) do not separate byte tokens.
        """
        words = self._tokenizer.get_vocab().items()
        return frozenset(
            i for word, i in words if i not in self._silent and not _BYTE.fullmatch(word)
        )
