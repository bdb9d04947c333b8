"""Convert a question to the tokens of a prompt, and an answer to the tokens to score.

Prompt and answer are tokenised as one text, as in training, and the tokens are
then split where the answer begins. So training, teacher forcing and generation
use the same sequence of tokens. This module does not need torch, because the
tokenizer is an argument.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TypeAlias, get_args

from leakbound.engines.templates import contains_question, family_of, turn_of, written
from leakbound.engines.thinking import marks_of, token_of
from leakbound.engines.tokens import Tokenizer as Tokenizer
from leakbound.engines.tokens import split_at
from leakbound.errors import InputError, ModelError
from leakbound.types import Compat, Decoding, Json, JsonObject, Query, Thinking, from_json
from leakbound.types.decoding import require

Question: TypeAlias = Query | str
"""A query with its prefix and examples, or the text of a question."""

BASE_TEMPLATE = "Question: {question}\nAnswer: "
_PLACEHOLDER = "{question}"
_BLANK = " "
_GAP = "\n\n"  # after each example
_TOKENISATION = "joint"  # part of fingerprints, because another rule would change the distribution
_NOT_FIELDS = ("family", "tokenisation")  # entries of `describe` that are not fields
_MARK = "leakbound-mark"
TRAINED = "leakbound_thinking"
"""The entry of a tokenizer's config that states whether its model was trained to think."""
_ELSEWHERE = "\u2603"  # shares no token with a question, so shared tokens are the template's


@dataclass(frozen=True, slots=True)
class Joined:
    """A prompt and an answer to it as the tokens of one text.

    Attributes:
        prompt: the tokens before the answer.
        answer: the other tokens, including the end token, a blank between prompt and answer, and a
            token across the boundary.
    """

    prompt: tuple[int, ...]
    answer: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Prompting:
    """The rule that turns a question into a prompt.

    A chat template is used if the tokenizer has one. Otherwise the question is put into `template`.

    `compat` "openunlearning" makes prompts and masks like the framework OpenUnlearning. In this
    mode, generation from a plain prompt keeps the trailing blank of the prompt. If the prompt has k
    tokens without an answer, the first k tokens of prompt and answer together are not scored. The
    first tokens of an answer may be among these tokens. Tokens after the end of a turn are scored,
    including a final EOS token. Tokens with the id of the pad token are hidden from all later
    tokens, even if they end a turn (issue 128 of OpenUnlearning). Published numbers of Llama 3
    depend on this.

    Attributes:
        template: the plain prompt, with {question} for the question (None: `BASE_TEMPLATE`).
        system: the chat's system message (None: `default_system`).
        default_system: the system message if `system` is None, except for model families without a
            system message (see `FAMILIES`). None: no system message.
        chat: True requires the chat template, False the plain prompt. None: the chat template if
            the tokenizer has one.
        compat: "openunlearning" (see above); None: no other framework is imitated.
        end_token: the text of a token that ends outputs, in addition to the model's own end tokens.
            None: the end-of-turn token of a chat template; for a plain prompt, no token.
        thinking: the mode of chat models that mark their thoughts. "off" ends every prompt with an
            empty thought. "on" requests thoughts from the template. "auto" uses the mode in which
            leakbound trained the model, or the template's default.

    Raises:
        InputError: a `template` without {question}, or an unknown `thinking`.
    """

    template: str | None = None
    system: str | None = None
    default_system: str | None = None
    chat: bool | None = None
    compat: Compat | None = None
    end_token: str | None = None
    thinking: Thinking = "auto"

    def __post_init__(self) -> None:
        modes = get_args(Thinking)
        require(self.thinking in modes, "thinking", self.thinking, f"one of {', '.join(modes)}")
        if self.template is not None and _PLACEHOLDER not in self.template:
            raise InputError(
                f"`template` must contain {_PLACEHOLDER}, got {self.template!r}. "
                f"Write it where the question goes, as in {BASE_TEMPLATE!r}."
            )

    def uses_chat(self, tokenizer: Tokenizer) -> bool:
        """Return whether the tokenizer's chat template makes the prompts.

        Args:
            tokenizer: the tokenizer of the model.

        Returns:
            True if the chat template makes the prompts.

        Raises:
            InputError: `chat` is True and the tokenizer has no chat template.
        """
        has_template = getattr(tokenizer, "chat_template", None) is not None
        if self.chat and not has_template:
            raise InputError(
                "these prompts need a chat model, but the tokenizer has no chat template. Use the "
                "instruct model, or write the plain prompt with `template` (--prompt-template)."
            )
        return has_template and self.chat is not False

    def encode(self, tokenizer: Tokenizer, question: Question) -> list[int]:
        """Return the token ids of the generation prompt for a question, without a trailing blank.

        The prefix of a query follows the prompt and opens the answer for the model. The examples
        come before the question: as turns of the chat, or in the same plain template with a blank
        line after each. Plain prompts begin with the tokenizer's BOS token if it adds one.

        Args:
            tokenizer: the tokenizer of the model.
            question: a query, or the text of a question.

        Returns:
            The token ids.

        Raises:
            InputError: a chat template that is missing, or that refuses the prompt.
            ModelError: a chat template that leaves the question out.
        """
        query = _query(question)
        if self.compat is not None:
            rule = self._rule(tokenizer)
            return self._seen(tokenizer, rule._encoded(tokenizer, rule._opened(tokenizer, query)))
        text = self._opened(tokenizer, query).rstrip(_BLANK)
        return [*self._head(tokenizer), *tokenizer.encode(text, add_special_tokens=False)]

    def text(self, question: Question) -> str:
        """Return the prompt without a chat template, for a server, without a trailing blank.

        Args:
            question: a query, or the text of a question.

        Returns:
            The prompt; with `compat` it keeps its trailing blank.
        """
        opened = self._plainly(_query(question))
        return opened.rstrip(_BLANK) if self.compat is None else opened

    def locate(self, tokenizer: Tokenizer, question: Question) -> tuple[list[int], tuple[int, int]]:
        """Encode a question, and locate it in its prompt.

        Args:
            tokenizer: the tokenizer of the model.
            question: a query, or the text of a question.

        Returns:
            The token ids that `encode` returns, the position of the question's first token, and the
            position after its last token.

        Raises:
            InputError: see `encode`.
            ModelError: see `encode`.
        """
        ids = self.encode(tokenizer, question)
        return ids, self.own(tokenizer, ids, _query(question).prefix)

    def own(self, tokenizer: Tokenizer, ids: Sequence[int], prefix: str = "") -> tuple[int, int]:
        """Locate the question in a prompt without examples.

        Args:
            tokenizer: the tokenizer of the model.
            ids: the tokens of the prompt.
            prefix: the words that open the answer in the prompt.

        Returns:
            The position of the question's first token, and the position after its last token.

        Raises:
            InputError: see `encode`.
            ModelError: see `encode`.
        """
        other = self.encode(tokenizer, replace(_query(_ELSEWHERE), prefix=prefix))

        def common(first: Sequence[int], second: Sequence[int]) -> int:
            pairs = zip(first, second, strict=False)
            return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

        start = common(ids, other)
        return start, len(ids) - common(ids[start:][::-1], other[start:][::-1])

    def join(
        self, tokenizer: Tokenizer, question: Question, answer: str, thought: str | None = None
    ) -> Joined:
        """Return the tokens of a prompt and its answer, for training and teacher forcing.

        For a chat, the text is the template's text of the finished conversation, up to the end of
        the answer's turn. Without a chat template, the text is prompt and answer as one string. An
        end token is added if it is missing.

        Args:
            tokenizer: the tokenizer of the model.
            question: a query, or the text of a question.
            answer: the text of the answer.
            thought: the text of the thought before the answer, whose tokens become part of the
                answer's tokens (None: no thought).

        Returns:
            The tokens of prompt and answer.

        Raises:
            InputError: the prompt or the answer has no tokens, a tokenizer without offsets merges
                prompt and answer, the prompt allows no thought, or `encode` raises it.
            ModelError: see `encode`, or a tokenizer without an end token.
        """
        query, rule = _query(question), self._rule(tokenizer)
        opened = rule._opened(tokenizer, query)
        if thought is None:
            finished = rule._finished(tokenizer, query, opened, answer)
        else:
            self._require_thinking(tokenizer, query)
            finished = f"{opened}{marks_of(tokenizer).lead(opened, thought)}{answer}"
        if self.compat is not None:
            # The prompt's part has as many tokens as the prompt without an answer.
            ids = rule._encoded(tokenizer, finished)
            if ids[-1:] != [_eos(tokenizer)]:
                ids.append(_eos(tokenizer))
            size = len(rule._encoded(tokenizer, opened))
            joined = Joined(tuple(ids[:size]), tuple(ids[size:]))
        else:
            before, after = split_at(tokenizer, finished, len(opened.rstrip(_BLANK)))
            ended = self._ended(tokenizer, after)
            joined = Joined((*self._head(tokenizer), *before), tuple(ended))
        if not (joined.prompt and joined.answer):
            raise InputError(
                f"prompt and answer need at least one token each, got {len(joined.prompt)} and "
                f"{len(joined.answer)} tokens for the answer {answer[:60]!r}. Change or remove it."
            )
        return joined

    def output(
        self, tokenizer: Tokenizer, question: Question, answer: str
    ) -> tuple[int, ...] | None:
        """Return the tokens of `answer` with the end token, as an output after `encode`'s prompt.

        Args:
            tokenizer: the tokenizer of the model.
            question: a query, or the text of a question.
            answer: the text of the answer.

        Returns:
            The tokens; None if the tokens of the finished text do not begin with the tokens of the
                prompt. The answer is then not an output of the sampled distribution.

        Raises:
            InputError: see `join`.
            ModelError: see `join`.
        """
        joined = replace(self, compat=None).join(tokenizer, question, answer)
        same = self._seen(tokenizer, joined.prompt) == self.encode(tokenizer, question)
        return joined.answer if same else None

    def ends(self, tokenizer: Tokenizer, own: frozenset[int]) -> frozenset[int]:
        """Return the tokens that end an output.

        Args:
            tokenizer: the tokenizer of the model.
            own: the end tokens in the model's files.

        Returns:
            The tokens `own`, and in addition `end_token` or, if it is None, the end-of-turn token
                of a chat.

        Raises:
            InputError: an `end_token` that is not a token of the model.
        """
        end = self._own_end(tokenizer)
        return own if end is None else own | {end}

    def _own_end(self, tokenizer: Tokenizer) -> int | None:
        """Return the token of `end_token`, or else the end-of-turn token of a chat, if any."""
        if self.end_token is None:
            has_template = getattr(tokenizer, "chat_template", None) is not None
            return _end_of_turn(tokenizer) if has_template and self.chat is not False else None
        if (token := token_of(tokenizer, self.end_token)) is None:
            raise InputError(
                f"`end_token` must be one token of the model's vocabulary, got "
                f"{self.end_token!r}. Write it as the tokenizer does, such as <|im_end|>."
            )
        return token

    def hidden_token_id(self, tokenizer: Tokenizer) -> int | None:
        """Return the token that `compat` hides in teacher-forced texts: the pad token, or else EOS.

        Args:
            tokenizer: the tokenizer of the model.

        Returns:
            The token's id; None without `compat`, or if the tokenizer has neither token.
        """
        if self.compat is None:
            return None
        pad = tokenizer.pad_token_id
        return tokenizer.eos_token_id if pad is None else pad  # type: ignore[no-any-return]

    def describe(self, tokenizer: Tokenizer) -> JsonObject:
        """Describe the prompts for this tokenizer, for the fingerprint of an engine.

        Args:
            tokenizer: the tokenizer of the model.

        Returns:
            The settings in effect, the family of the chat template, and the tokenisation.

        Raises:
            InputError: `chat` is True and the tokenizer has no chat template, or `end_token` is
                not a token of the model.
        """
        end = self._own_end(tokenizer)
        thinks = self._may_think(tokenizer)
        return {
            "template": self.template,
            "system": self.system_for(tokenizer),
            "chat": self.uses_chat(tokenizer),
            "compat": self.compat,
            "end_token": None if end is None else tokenizer.convert_ids_to_tokens(end),
            **({"thinking": self._thinking(tokenizer)} if thinks else {}),
            "family": family_of(tokenizer).name,
            "tokenisation": _TOKENISATION,
        }

    @classmethod
    def described(cls, description: Json) -> Prompting:
        """Return the rule from the result of `describe`, for the same tokenizer.

        Args:
            description: the result of `describe`. For a value that is not a mapping, the default
                rule is returned.

        Returns:
            The rule.

        Raises:
            InputError: a description with an unknown setting, or with a setting that has a wrong
                type.
        """
        stated = description if isinstance(description, Mapping) else {}
        rule = {name: value for name, value in stated.items() if name not in _NOT_FIELDS}
        return from_json(cls, rule, "the prompting of the fingerprint")

    def system_for(self, tokenizer: Tokenizer | None) -> str | None:
        """Return the system message that opens a chat with this tokenizer's model.

        Args:
            tokenizer: the tokenizer of the model (None: the model is on a server).

        Returns:
            The message; None: no message.
        """
        if self.system is None and family_of(tokenizer).system:
            return self.default_system
        return self.system

    def notes(self, tokenizer: Tokenizer) -> list[str]:
        """Describe a system message that has no effect, and how thinking differs from training.

        Args:
            tokenizer: the tokenizer of the model.

        Returns:
            At most one note on the system message and one on thinking.
        """
        unused = "the system message is not used, because the prompts or the template omit it"
        return [*([unused] * self._omits_system(tokenizer)), *self._thinking_notes(tokenizer)]

    def _omits_system(self, tokenizer: Tokenizer) -> bool:
        """Return whether there is a system message and the prompts do not contain it."""
        with suppress(InputError):  # the template's error appears with the real questions
            return self.system is not None and not contains_question(
                self._opened(tokenizer, _query(_ELSEWHERE)), self.system
            )
        return False

    def _thinking_notes(self, tokenizer: Tokenizer) -> list[str]:
        """Describe how thinking differs from training or from the template's default."""
        trained = _trained(tokenizer)
        if self.thinking == "on" and not self._may_think(tokenizer):
            return ["thinking is on, but no token marks thoughts, so all outputs are answers"]
        if trained is None or not self._may_think(tokenizer):
            return []
        now = self._thinking(tokenizer)
        if now != trained:
            return [f"thinking is {now}, but the model was trained with thinking {trained}"]
        if now != "off":
            return []
        opened = replace(self, thinking="on")._opened(tokenizer, _query(_ELSEWHERE))
        thinks = bool(marks_of(tokenizer).skip(opened))
        note = "thinking is off, as in training, although the chat template would turn it on"
        return [note] if thinks else []

    def record(self, tokenizer: Tokenizer) -> None:
        """Record in a tokenizer whether its model was trained to think, for the mode "auto".

        Args:
            tokenizer: the tokenizer of the trained model, which is saved together with the model.
        """
        if self._may_think(tokenizer):
            tokenizer.init_kwargs[TRAINED] = self._thinking(tokenizer)

    def _may_think(self, tokenizer: Tokenizer) -> bool:
        """Return True if prompts can turn thinking on or off (chat models that mark thoughts)."""
        chat = self.compat is None and self.uses_chat(tokenizer)
        return chat and bool(marks_of(tokenizer).begins)

    def _thinking(self, tokenizer: Tokenizer) -> Thinking:
        """Return `thinking`, or the mode in which the model was trained."""
        return (_trained(tokenizer) or "auto") if self.thinking == "auto" else self.thinking

    def _require_thinking(self, tokenizer: Tokenizer, query: Query) -> None:
        """Refuse a thought if no token marks thoughts, or if the prompt leaves no place for one."""
        why = None
        if not marks_of(tokenizer).begins:
            why = "the tokenizer has no token that marks thoughts"
        elif self._may_think(tokenizer) and self._thinking(tokenizer) == "off":
            why = "thinking is off"
        elif query.prefix or self.compat is not None:
            why = "a prefix or `compat` puts the beginning of the answer into the prompt"
        if why is not None:
            raise InputError(
                f"the row {query.text[:60]!r} contains a thought, but {why}. Remove the thought, "
                "or train a chat model that marks thoughts, with --thinking on."
            )

    def conversation(
        self, query: Query, tokenizer: Tokenizer | None = None
    ) -> list[dict[str, str]]:
        """Return the turns of a chat about a query: system message, examples and question.

        Args:
            query: the query.
            tokenizer: the tokenizer of the model (None: the model is on a server).

        Returns:
            A mapping of `role` and `content` for each turn.
        """
        system = self.system_for(tokenizer)
        turns = [turn_of("system", system)] if system else []
        for question, answer in query.examples:
            turns += [turn_of("user", question), turn_of("assistant", answer)]
        return [*turns, *self.turns(tokenizer, query.text)]

    def turns(self, tokenizer: Tokenizer | None, question: str) -> list[dict[str, str]]:
        """Return the turns of a question: one turn of the user.

        Args:
            tokenizer: the tokenizer of the model (None: the model is on a server).
            question: the text of a query.

        Returns:
            A mapping of `role` and `content` for each turn.
        """
        return [turn_of("user", question)]

    def _rule(self, tokenizer: Tokenizer) -> Prompting:
        """Return the rule; if `compat` has its own turns for this family, use no chat template."""
        turn = family_of(tokenizer).turn
        if self.compat is None or turn is None or not self.uses_chat(tokenizer):
            return self
        return self if self.system_for(tokenizer) else replace(self, template=turn, chat=False)

    def _plainly(self, query: Query) -> str:
        def put(question: str) -> str:
            # Not str.format: braces in a question or elsewhere in the template are plain text.
            return (self.template or BASE_TEMPLATE).replace(_PLACEHOLDER, question)

        shown = [f"{put(question)}{answer}{_GAP}" for question, answer in query.examples]
        return "".join([*shown, put(query.text), query.prefix])

    def _opened(self, tokenizer: Tokenizer, query: Query) -> str:
        """Return the text before the output, or before the rest of an answer with a prefix."""
        if not self.uses_chat(tokenizer):
            return self._plainly(query)
        turns, marks = self.conversation(query, tokenizer), marks_of(tokenizer)
        opened = written(tokenizer, turns, open_ended=True, thinking=self._setting(tokenizer))
        if self._setting(tokenizer) is False:
            opened += marks.skip(opened)
        leads = marks.lead(opened) if query.prefix and not self.compat else ""
        return f"{opened}{leads}{query.prefix}"

    def _setting(self, tokenizer: Tokenizer) -> bool | None:
        """Return the setting of thinking for the chat template; None: no setting."""
        if not self._may_think(tokenizer):
            return None
        return {"on": True, "off": False}.get(self._thinking(tokenizer))

    def _finished(self, tokenizer: Tokenizer, query: Query, opened: str, answer: str) -> str:
        """Return the text of prompt and answer; it begins with `opened` without its blank."""
        start, marks = opened.rstrip(_BLANK), marks_of(tokenizer)
        if self.compat is None and marks.opens(opened):  # the prompt's tokens must not change
            return f"{opened}{marks.lead(opened)}{answer}"
        if self.uses_chat(tokenizer) and family_of(tokenizer).turn is None:
            reply = turn_of("assistant", query.prefix + answer)
            turns = [*self.conversation(query, tokenizer), reply]
            thinking = self._setting(tokenizer)
            text = written(tokenizer, turns, open_ended=False, thinking=thinking)
            # Some templates rewrite or wrap earlier turns; generation would not start there.
            kept = text.startswith(start) and answer.strip() in text[len(start) :]
            if kept or self.compat is not None:
                return text
        if self.compat is None and not answer[:1].strip():  # empty, or begins with a blank
            return start + answer
        return f"{opened}{marks.lead(opened)}{answer}"

    def _ended(self, tokenizer: Tokenizer, answer: Sequence[int]) -> list[int]:
        """Return an answer's tokens up to the end of its turn; add a missing end token."""
        own, ids = self._own_end(tokenizer), list(answer)
        end = _eos(tokenizer) if own is None else own
        if self.uses_chat(tokenizer) and end in ids:
            return ids[: len(ids) - ids[::-1].index(end)]
        return ids if ids[-1:] == [end] else [*ids, end]

    def _encoded(self, tokenizer: Tokenizer, text: str) -> list[int]:
        """Return the tokens of a text; a plain text includes the tokens that the tokenizer adds."""
        return list(tokenizer.encode(text, add_special_tokens=not self.uses_chat(tokenizer)))

    def _seen(self, tokenizer: Tokenizer, ids: Sequence[int]) -> list[int]:
        """Return the tokens of a prompt that are visible to later tokens.

        Only these tokens are used in generation, also for the positions of later tokens.
        """
        hidden = self.hidden_token_id(tokenizer)
        return [token for token in ids if hidden is None or token != hidden]

    def _head(self, tokenizer: Tokenizer) -> list[int]:
        return [] if self.uses_chat(tokenizer) else bos_ids(tokenizer)


def _query(query: Question) -> Query:
    return Query(id=query, prompt_id=query, text=query) if isinstance(query, str) else query


def _trained(tokenizer: Tokenizer) -> Thinking | None:
    """Return whether leakbound trained the model to think; None: leakbound did not train it."""
    stated = getattr(tokenizer, "init_kwargs", {}).get(TRAINED)
    return stated if stated in get_args(Thinking) else None


def _eos(tokenizer: Tokenizer) -> int:
    if tokenizer.eos_token_id is None:
        raise ModelError(
            "the tokenizer has no end token. Set `eos_token` in its tokenizer_config.json."
        )
    return int(tokenizer.eos_token_id)


def bos_ids(tokenizer: Tokenizer) -> list[int]:
    """Return the BOS token, if the tokenizer begins texts with it.

    Args:
        tokenizer: the tokenizer of the model.

    Returns:
        Its id, or an empty list.
    """
    # Other tokens that a tokenizer adds, such as EOS, are no part of a prompt.
    added = tokenizer.encode("", add_special_tokens=True)[:1]
    return added if added == [tokenizer.bos_token_id] else []


def _end_of_turn(tokenizer: Tokenizer) -> int | None:
    """Return the first special token after the last message of the assistant, if any.

    A token that also ends channels other than the answer's cannot end an output.
    """
    turns = [turn_of("user", "?"), turn_of("assistant", _MARK)]
    try:
        _, mark, tail = written(tokenizer, turns, open_ended=False).rpartition(_MARK)
    except (InputError, ModelError):  # raised again when the template writes a prompt
        return None
    added, marks = tokenizer.added_tokens_decoder, marks_of(tokenizer).ids
    ids = tokenizer.encode(tail, add_special_tokens=False) if mark else []
    turn = next((i for i in ids if i in added and added[i].content.strip()), None)
    return None if turn in marks else turn


def require_room(
    query: Query, length: int, decoding: Decoding, limit: int | None, larger: str = ""
) -> None:
    """Raise InputError for a query that does not fit a context together with its completion.

    Args:
        query: the query.
        length: the number of tokens of the prompt.
        decoding: the decoding, which limits the length of a completion.
        limit: the number of tokens of the context (None: unlimited).
        larger: what the user can do to make the context larger; empty: nothing.
    """
    room = decoding.room(length)
    if room < 1:
        raise InputError(
            f"query {query.id!r} has {length} prompt tokens, but prompt and completion together "
            f"may have only {decoding.max_tokens} tokens. Raise --max-tokens."
        )
    if limit is not None and length + room > limit:
        remedies = ["Shorten the prompt", "lower --max-new-tokens", *([larger] if larger else [])]
        raise InputError(
            f"query {query.id!r} has {length} prompt tokens. Together with {room} new tokens, they "
            f"exceed the model's context of {limit} tokens. {', '.join(remedies[:-1])}, or "
            f"{remedies[-1]}."
        )
