"""The marks of thoughts in families of models: special tokens, or tags in the text.

A tag that is spelled by ordinary tokens counts as text, with one exception. If the tokenizer has no
token for the tag, but its chat template writes the tag, such a tag counts as a mark. A closing tag
without an opening tag counts as ordinary text. Text of any other channel before the answer, such as
a tool call, is part of the thought. Once the answer has begun, all later text belongs to the
answer. So no text is lost, and later tokens can only lengthen the thought and the answer of a
prefix.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias

from leakbound.types import Decoding, Parts
from leakbound.types.decoding import require

Begins: TypeAlias = Literal["thought", "answer", "header", "content"]
"""The part of an output that follows a mark; a "header" names the kind of "content" after it."""

_ANSWERS = ("final", "assistant", "")  # headers of an answer
_HEADERS = (*_ANSWERS, "analysis", "commentary")  # headers without other text


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of a family of models.

    Attributes:
        begins: for each mark, the part of the output that follows it; a model of the family has at
            least the first two marks.
        opening: the text that begins a thought.
        closing: the text between a thought and the answer.
        title: the first line of every thought, without content.
        call: the mark that ends a tool call.
        turn: the text at the end of a prompt, before the header of an output.
        answer: the header of an answer.
        ids: the marks by their token ids, if they are tokens of the model; empty: the marks are
            tags in the text.
    """

    begins: Mapping[str, Begins] = field(default_factory=dict)
    opening: str = ""
    closing: str = ""
    title: str = ""
    call: str = ""
    turn: str = ""
    answer: str = ""
    ids: Mapping[int, str] = field(default_factory=dict)

    @property
    def needed(self) -> tuple[str, ...]:
        """The marks that identify a family."""
        return tuple(self.begins)[:2]

    def opens(self, prompt: str) -> bool:
        """Return whether a prompt leaves a thought open.

        Args:
            prompt: the text of the prompt, or the end of this text, with the marks.

        Returns:
            True if no text follows the mark that begins a thought.
        """
        if not self.begins:
            return False
        first, second = self.needed
        before, _, header = prompt.rpartition(first)
        if self.begins[first] == "thought":
            return prompt != header and header.strip() in ("", self.title.strip())
        channel, mark, rest = header.partition(second)
        return bool(mark and before != prompt and not rest.strip()) and (
            channel.strip() not in _ANSWERS
        )

    def lead(self, prompt: str, thought: str = "") -> str:
        """Return the text between a prompt and the answer.

        Args:
            prompt: the text of the prompt.
            thought: the thought before the answer; empty: no thought.

        Returns:
            The thought with its marks. Without a thought, the end of an empty thought if the prompt
                opened a thought, or else the header of the answer. Empty if the answer follows
                immediately.
        """
        if self.opens(prompt):
            text = f"{thought.strip()}{self.closing}"
            return text.lstrip("\n") if not thought and prompt[-1:].isspace() else text
        if thought:
            return f"{self.opening}{thought.strip()}{self.closing}"
        return self.answer if self.turn and prompt.endswith(self.turn) else ""

    def skip(self, prompt: str) -> str:
        """Return the text that, added to a prompt, prevents a thought.

        Args:
            prompt: the text of the prompt.

        Returns:
            An empty thought, or the rest of an empty thought. Empty if the prompt already ends with
                an empty thought.
        """
        if not self.begins or prompt.rstrip().endswith(self.answer or self.needed[1]):
            return ""
        return self.lead(prompt) or f"{self.opening}{self.closing}"

    def compose(
        self, pieces: Sequence[tuple[Begins | None, str]], opened: bool, *, whole: bool
    ) -> Parts:
        """Return the thought and the answer of an output.

        Args:
            pieces: the texts between marks, each with the part that its mark begins; the first has
                no mark.
            opened: whether the prompt left a thought open.
            whole: whether the output is complete; if not, later tokens can only lengthen both
                texts.

        Returns:
            The thought and the answer. Blanks around the thought, and between thought and answer,
                belong to neither.
        """
        state: Begins = "thought" if opened else "answer"
        header, answer, thoughts = "", "", list[str]()
        for at, (mark, text) in enumerate(pieces):
            if mark == "content":
                state = "answer" if header in _ANSWERS else "thought"
            elif mark is not None:
                state = mark
            if state == "header":
                header = text.strip()
                unfinished = at == len(pieces) - 1 and not whole
                text = "" if unfinished or header in _HEADERS else header
            if state == "answer" or answer.strip():
                text = text.lstrip() if opened or at else text
                joined = f"{answer}\n{text}" if answer.strip() else text
                answer = joined if text else answer
            else:
                text = text.lstrip()
                titled = self.title.startswith(text)  # a beginning of the title, or empty
                thoughts.append("" if titled else text.removeprefix(self.title).strip())
        thought = "\n".join(filter(None, thoughts))
        return Parts(thought or None, answer if whole or answer.strip() else "")


NONE = Marks()
FAMILIES = (
    Marks(  # Qwen3, DeepSeek-R1 and most others
        {"<think>": "thought", "</think>": "answer"}, "<think>\n", "\n</think>\n\n"
    ),
    Marks({"[THINK]": "thought", "[/THINK]": "answer"}, "[THINK]", "[/THINK]"),  # Magistral
    Marks(  # Gemma 4
        {"<|channel>": "thought", "<channel|>": "answer"},
        "<|channel>thought\n",
        "<channel|>",
        title="thought\n",
    ),
    Marks(  # gpt-oss
        {
            "<|channel|>": "header",
            "<|message|>": "content",
            "<|start|>": "header",
            "<|end|>": "header",
            "<|call|>": "header",
        },
        "<|channel|>analysis<|message|>",
        "<|end|><|start|>assistant<|channel|>final<|message|>",
        call="<|call|>",
        turn="<|start|>assistant",
        answer="<|channel|>final<|message|>",
    ),
)


def marks_of(tokenizer: Any) -> Marks:
    """Return the marks of a model's family, with the ids of marks that are tokens of the model.

    Args:
        tokenizer: the tokenizer of the model.

    Returns:
        The marks; `NONE` if the model does not mark thoughts.
    """
    for family in FAMILIES:
        tokens = {mark: token_of(tokenizer, mark) for mark in family.begins}
        if all(tokens[mark] is not None for mark in family.needed):
            ids = {token: mark for mark, token in tokens.items() if token is not None}
            return replace(family, ids=ids)
    template = str(getattr(tokenizer, "chat_template", None))
    tagged = (family for family in FAMILIES if all(mark in template for mark in family.needed))
    return next(tagged, NONE)


def token_of(tokenizer: Any, text: str) -> int | None:
    """Return the single token whose text is `text`.

    Args:
        tokenizer: the tokenizer of the model.
        text: the text, as the tokenizer writes it.

    Returns:
        Its id; None if it is not a single token.
    """
    token = tokenizer.convert_tokens_to_ids(text)
    exact = token is not None and tokenizer.convert_ids_to_tokens(token) == text
    return int(token) if exact else None


class Phase(NamedTuple):
    """The position of an output in its thought and its answer.

    Attributes:
        part: the part to which the next token belongs.
        header: the tokens of a header so far.
        thought: the number of tokens of the thought, including its marks and the blanks around it.
        answer: the number of tokens of the answer.
        closed: the number of tokens that closed the thought because its budget was spent.
    """

    part: Begins
    header: tuple[int, ...] = ()
    thought: int = 0
    answer: int = 0
    closed: int = 0


_KEPT = 1 << 16  # the maximum number of phases in memory


class ThoughtBudget:
    """Limit the tokens of a thought and of the answer; see `leakbound.sampling.budget`.

    The tokens that close a thought count against its budget.

    Args:
        marks: the marks of the model, which are tokens.
        closing: the tokens between a thought and the answer.
        decode: converts tokens to text.
        decoding: a decoding with budgets.
        opened: whether prompts leave a thought open.

    Raises:
        InputError: a budget that `closing` exceeds.
    """

    def __init__(
        self,
        marks: Marks,
        closing: Sequence[int],
        decode: Callable[[Sequence[int]], str],
        decoding: Decoding,
        *,
        opened: bool,
    ) -> None:
        most = decoding.max_thinking_tokens or 0
        want = f"more than the {len(closing)} tokens that close a thought of this model"
        require(most > len(closing), "max_thinking_tokens", most, want)
        self._marks, self._closing, self._decode = marks, tuple(closing), decode
        self._most, self._answer = most, decoding.max_new_tokens
        self._first = Phase("thought" if opened else "answer")
        self._blank: dict[int, bool] = {}
        self._phases: dict[tuple[int, ...], Phase] = {}

    def start(self, prompt: Sequence[int]) -> Phase:
        """See `Budget.start`."""
        return self._first

    def follow(self, state: Phase, token: int) -> Phase:
        """See `Budget.follow`."""
        closed = state.closed + (self.forced(state) is not None)
        mark = self._marks.ids.get(token)
        if state.answer or (mark is None and state.part == "answer" and not self._is_blank(token)):
            return state._replace(answer=state.answer + 1, closed=closed)
        part, header = state.part, state.header
        if mark is not None:
            part, header = self._marks.begins[mark], ()
            if part == "content":
                named = self._decode(state.header).strip()
                part = "answer" if named in _ANSWERS else "thought"
        elif part == "header":
            header = (*header, token)
        return Phase(part, header, state.thought + 1, 0, closed)

    def forced(self, state: Phase) -> int | None:
        """See `Budget.forced`."""
        begun = state.closed > 0 or (
            state.part != "answer" and state.thought >= self._most - len(self._closing)
        )
        going = begun and not state.answer and state.closed < len(self._closing)
        return self._closing[state.closed] if going else None

    def spent(self, ids: tuple[int, ...]) -> bool:
        """See `Budget.spent`."""
        return len(ids) >= self._answer and self._phase(ids).answer >= self._answer

    def cut(self, ids: tuple[int, ...]) -> tuple[int, ...]:
        """Cut an output at the token where a budget is spent, without closing a thought.

        Args:
            ids: the tokens of the output, drawn without the budgets.

        Returns:
            The tokens until a budget is spent; if the thought spent its budget, there is no answer.
        """
        state = self._first
        for at, token in enumerate(ids):
            thinks = not state.answer and state.part != "answer"
            if state.answer >= self._answer or (thinks and state.thought >= self._most):
                return ids[:at]
            state = self.follow(state, token)
        return ids

    def _phase(self, ids: tuple[int, ...]) -> Phase:
        if len(self._phases) > _KEPT:
            self._phases.clear()
        state = self._phases.get(ids[:-1])
        if state is None:
            state = self._first
            for token in ids[:-1]:
                state = self.follow(state, token)
        self._phases[ids] = self.follow(state, ids[-1])
        return self._phases[ids]

    def _is_blank(self, token: int) -> bool:
        if token not in self._blank:
            self._blank[token] = not self._decode((token,)).strip()
        return self._blank[token]
