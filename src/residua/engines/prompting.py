"""How a question becomes the tokens a model reads, and an answer the tokens it is scored on.

Prompt and answer are tokenised apart, so no token ever spans the boundary between them. Needs
no torch: the tokenizer comes in as an argument.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import takewhile
from typing import Any, TypeAlias

import jinja2

from residua.engines.families import family_of
from residua.errors import InputError, ModelError
from residua.types import Compat

Tokenizer: TypeAlias = Any  # a transformers tokenizer; importing its type costs seconds
Examples: TypeAlias = Sequence[tuple[str, str]]

BASE_TEMPLATE = "Question: {question}\nAnswer: "
# Llama 3 writes today's date into its prompt unless told one; this is OpenUnlearning's.
DATE_STRING = "10 Apr 2025"
_PLACEHOLDER = "{question}"
_GAP = "\n\n"  # between one example and what follows it
_MARK = "residua-mark"
_ELSEWHERE = "\u2603"  # shares no token with any question, so that what is shared is the template


@dataclass(frozen=True, slots=True)
class Prompting:
    """The rule that turns a question into a prompt.

    A tokenizer that has a chat template uses it, with its special tokens; any other puts the
    question into `template` (None: `BASE_TEMPLATE`). `chat` True insists on the chat template,
    False on the plain one. `system` is the chat's system message; where it is None,
    `default_system` is, except for families that are asked without (see `families`).

    `compat` "openunlearning" repeats a fault of that framework (its issue 128), on which released
    numbers of Llama 3 depend: where an answer is teacher-forced, tokens with the id of the pad
    token are hidden from those after them wherever they stand, so ends of turns too.
    """

    template: str | None = None
    system: str | None = None
    default_system: str | None = None
    chat: bool | None = None
    compat: Compat | None = None

    def __post_init__(self) -> None:
        if self.template is not None and _PLACEHOLDER not in self.template:
            raise InputError(
                f"`template` must contain {_PLACEHOLDER}, got {self.template!r}. "
                f"Write it where the question goes, as in {BASE_TEMPLATE!r}."
            )

    def uses_chat(self, tokenizer: Tokenizer) -> bool:
        """True if prompts for this tokenizer are made by its chat template.

        Raises InputError where `chat` is True and the tokenizer has none.
        """
        has_template = getattr(tokenizer, "chat_template", None) is not None
        if self.chat and not has_template:
            raise InputError(
                "this asks chat models, and the tokenizer has no chat template. Use the instruct "
                "model, or write the plain prompt with `template` (--prompt-template)."
            )
        return has_template and self.chat is not False

    def encode(
        self, tokenizer: Tokenizer, question: str, prefix: str = "", examples: Examples = ()
    ) -> list[int]:
        """Token ids of the generation prompt for `question`.

        `prefix` opens the answer for the model: it follows the prompt, tokenised apart. The
        questions and answers of `examples` come before the question: as turns of the chat, or in
        the same plain template with a blank line after each. Plain prompts begin with the
        tokenizer's BOS token if it adds one.
        """
        opening = tokenizer.encode(prefix, add_special_tokens=False) if prefix else []
        if self.uses_chat(tokenizer):
            return [*self._chat(tokenizer, question, examples), *opening]
        shown = [f"{self._plain(asked)}{answer}{_GAP}" for asked, answer in examples]
        text = "".join([*shown, self._plain(question)])
        return [*_bos(tokenizer), *tokenizer.encode(text, add_special_tokens=False), *opening]

    def locate(
        self, tokenizer: Tokenizer, question: str, prefix: str = ""
    ) -> tuple[list[int], tuple[int, int]]:
        """`encode`'s token ids, and from where to where in them the question itself stands."""
        ids = self.encode(tokenizer, question, prefix)
        return ids, _where_they_differ(ids, self.encode(tokenizer, _ELSEWHERE, prefix))

    def encode_answer(self, tokenizer: Tokenizer, answer: str) -> list[int]:
        """Token ids of `answer` and the end token: what a scored or trained answer is made of."""
        return [*tokenizer.encode(answer, add_special_tokens=False), self.end_token_id(tokenizer)]

    def end_token_id(self, tokenizer: Tokenizer) -> int:
        """The token that ends an answer: the chat template's end of turn, else the EOS token.

        Raises ModelError if the tokenizer has neither.
        """
        if self.uses_chat(tokenizer):
            turn = _end_of_turn(tokenizer)
            if turn is not None:
                return turn
        if tokenizer.eos_token_id is None:
            raise ModelError(
                "the tokenizer has no end token (`eos_token` is None). "
                "Set one in its tokenizer_config.json."
            )
        return int(tokenizer.eos_token_id)

    def hidden_token_id(self, tokenizer: Tokenizer) -> int | None:
        """The token that `compat` hides from teacher-forced texts: the pad token, else EOS."""
        if self.compat is None:
            return None
        pad = tokenizer.pad_token_id
        return tokenizer.eos_token_id if pad is None else pad  # type: ignore[no-any-return]

    def to_dict(self) -> dict[str, Any]:
        """Every field, for fingerprints and run files."""
        return asdict(self)

    def describe(self, tokenizer: Tokenizer) -> dict[str, Any]:
        """How prompts for this tokenizer are made, for the fingerprint of an engine."""
        return {
            "template": self.template,
            "system": self.system_for(tokenizer),
            "chat": self.uses_chat(tokenizer),
            "compat": self.compat,
            "family": family_of(tokenizer).name,
        }

    @classmethod
    def described(cls, said: Mapping[str, Any]) -> Prompting:
        """The rule that `describe` told of, for the same tokenizer."""
        return cls(**{name: value for name, value in said.items() if name != "family"})

    def system_for(self, tokenizer: Tokenizer) -> str | None:
        """The system message that opens a chat with this tokenizer's model, if any."""
        if self.system is None and family_of(tokenizer).system:
            return self.default_system
        return self.system

    def turns(self, question: str) -> list[dict[str, str]]:
        """What of the conversation `question` stands for: one turn of the user."""
        return [_turn("user", question)]

    def _plain(self, question: str) -> str:
        # Not str.format: braces in a question or elsewhere in the template are plain text.
        return (self.template or BASE_TEMPLATE).replace(_PLACEHOLDER, question)

    def _chat(self, tokenizer: Tokenizer, question: str, examples: Examples) -> list[int]:
        system = self.system_for(tokenizer)
        conversation = [_turn("system", system)] if system else []
        for asked, answer in examples:
            conversation += [_turn("user", asked), _turn("assistant", answer)]
        try:
            ids = tokenizer.apply_chat_template(
                [*conversation, *self.turns(question)],
                add_generation_prompt=True,
                return_dict=False,
                date_string=DATE_STRING,
            )
        except jinja2.TemplateError as error:
            raise InputError(
                f"the model's chat template refused the prompt (system message {system!r}): "
                f"{error}. Try without a system message."
            ) from error
        return list(ids)


def _turn(role: str, text: str) -> dict[str, str]:
    return {"role": role, "content": text}


def _where_they_differ(ids: Sequence[int], other: Sequence[int]) -> tuple[int, int]:
    """From where to where `ids` stand apart from `other` between a common start and end."""

    def common(pairs: Sequence[tuple[int, int]]) -> int:
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

    start = common([*zip(ids, other, strict=False)])
    rest = list(zip(reversed(ids[start:]), reversed(other[start:]), strict=False))
    return start, len(ids) - common(rest)


def _bos(tokenizer: Tokenizer) -> list[int]:
    # Whatever else a tokenizer adds (some end every text with EOS) is no part of a prompt.
    added = tokenizer.encode("", add_special_tokens=True)[:1]
    return added if added == [tokenizer.bos_token_id] else []


def _end_of_turn(tokenizer: Tokenizer) -> int | None:
    """The special token right after an assistant's message, or None if the template has none."""
    turn = [{"role": "user", "content": "?"}, {"role": "assistant", "content": _MARK}]
    rendered = tokenizer.apply_chat_template(turn, tokenize=False, date_string=DATE_STRING)
    tail = rendered.rpartition(_MARK)[2].lstrip()
    ids = tokenizer.encode(tail, add_special_tokens=False)[:1]
    special = {i for i, token in tokenizer.added_tokens_decoder.items() if token.special}
    return int(ids[0]) if ids and ids[0] in special else None
