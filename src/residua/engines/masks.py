"""Which tokens of a teacher-forced text are read, and which are scored: by position alone.

Padding is never found by comparing ids: where the pad token is also the end token, that would
hide every end of turn inside a prompt. OpenUnlearning does (its issue 128), and the released
numbers of Llama 3 depend on it; `compat="openunlearning"` does likewise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from residua.errors import InputError

Compat = Literal["openunlearning"]


@dataclass(frozen=True, slots=True)
class Masks:
    """Of the tokens of a prompt and its answer: `read[i]` is 1 where later tokens see token i,
    and `scored` are the positions of the answer, each predicted at the one before it."""

    read: tuple[int, ...]
    scored: range


def masks(
    prompt: Sequence[int],
    answer: Sequence[int],
    *,
    compat: Compat | None = None,
    pad_token_id: int | None = None,
) -> Masks:
    """The masks of `answer` after `prompt`, both as token ids.

    Every token is read, and the answer scored to its end token. With `compat` tokens with the
    id of the pad token are not read, wherever they stand; what is scored stays the same. Raises
    InputError for an empty prompt, after which the first token has no prediction, and for
    `compat` without `pad_token_id`.
    """
    if not prompt:
        raise InputError(
            "the prompt has no token, so nothing predicts the answer's first. Use a tokenizer "
            "with a BOS token, or a template that is not empty."
        )
    if compat is not None and pad_token_id is None:
        raise InputError(
            f"`compat` {compat!r} hides tokens with the id of the pad token: give `pad_token_id`."
        )
    tokens = (*prompt, *answer)
    hidden = pad_token_id if compat is not None else None
    return Masks(
        read=tuple(int(token != hidden) for token in tokens),
        scored=range(len(prompt), len(tokens)),
    )
