"""The classes of outputs, the same for every engine, server, importer and plug-in.

| finish | visible answer | counted as | answer |
|---|---|---|---|
| stop, stop_string | yes | complete | scored |
| stop, stop_string | no, and the output's tokens explain why | complete | scored |
| stop, stop_string | no, and its tokens do not explain why, or are unknown | empty | missing |
| length | yes | cut | scored |
| length | no, after a thought | cut | missing |
| length | no | empty | missing |
| filtered | either | filtered | missing, or scored where the filter is part of the system |
| tool, error | either | failed | missing |
| unknown | yes | unrecorded | scored |
| unknown | no | empty | missing |

A missing answer counts as 1 in the upper bound and as 0 in the lower bound. An answer is visible if
`normalise` leaves any character of it. The tokens of an output explain that its answer is not
visible in two cases. In the first case the token ids are known, so the text is known exactly. In
the second case only the number of tokens is known, and it is no larger than an end token or a stop
string may need.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias, get_args

from leakbound.text.keywords import normalise
from leakbound.text.shown import many, share
from leakbound.types import Finish, Output

CountedAs: TypeAlias = Literal["complete", "cut", "filtered", "empty", "failed", "unrecorded"]
_CLASSES: tuple[CountedAs, ...] = get_args(CountedAs)


def visible(text: str | None) -> bool:
    """Return whether a text has any visible character.

    Args:
        text: the text, or None.

    Returns:
        True if anything is left after `normalise`.
    """
    if not text:
        return False
    return (text[0].isascii() and text[0].isalnum()) or bool(normalise(text))


_TAGS = (
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<thinking>", "</thinking>"),
    ("◁think▷", "◁/think▷"),
    ("<|channel|>analysis<|message|>", "<|channel|>final<|message|>"),
)


def split_thought(text: str) -> tuple[str | None, str]:
    """Split a text into thought and answer at the tags of the thought.

    Use this function for outputs whose token ids are not known.

    Args:
        text: a complete output. The opening tag may be missing, because some chat templates put it
            into the prompt.

    Returns:
        The thought, or None, and the answer: the text after the last closing tag. The answer is ""
            if the thought is not closed.
    """
    for begin, end in _TAGS:
        thought, closed, answer = text.rpartition(end)
        if text.lstrip().startswith(begin) or (closed and begin not in thought):
            thought = thought if closed else answer
            answer = answer.lstrip() if closed else ""
            return thought.strip().removeprefix(begin).strip() or None, answer
    return None, text


def closes_thought(text: str) -> bool:
    """Return whether a text closes a thought that was opened in its prompt.

    Args:
        text: a complete output.

    Returns:
        True if there is text before the first closing tag, and no opening tag.
    """
    heads = [(begin, text.partition(end)[0]) for begin, end in _TAGS if end in text]
    return any(visible(head) and begin not in head for begin, head in heads)


_WORDS: Mapping[Finish, str] = {
    "stop": "stop eos eos_token end_turn complete",
    "stop_string": "stop_string stop_sequence",
    "length": "length max_tokens max_output_tokens max_new_tokens model_length "
    "model_context_window_exceeded",
    "filtered": "filtered content_filter content_filtered guardrail_intervened refusal safety "
    "recitation blocklist prohibited_content spii",
    "tool": "tool tool_calls tool_call tool_use function_call",
    "error": "error abort cancelled malformed_function_call",
    "unknown": "unknown",
}
_FINISHES: Mapping[str, Finish] = {
    word: finish for finish, words in _WORDS.items() for word in words.split()
}


def finish_of(word: object) -> Finish | None:
    """Convert a server's or a tool's word for the end of an output to a `Finish`.

    Args:
        word: the word, in upper or lower case, with underscores or hyphens; None: not recorded.

    Returns:
        The finish; None for an unknown word.
    """
    return "unknown" if word is None else _FINISHES.get(str(word).strip().lower().replace("-", "_"))


def output_of(
    text: str,
    word: object = None,
    *,
    thoughts: Iterable[str | None] = (),
    tokens: object = None,
    refused: object = False,
    hidden: object = False,
    reasoned: object = False,
) -> Output:
    """Make an output from a text whose source gives no token ids.

    Args:
        text: the answer, or a thought in tags and the answer.
        word: the source's word for the end of the output, as in `finish_of`; an unknown word counts
            as "error".
        thoughts: thoughts that the source reports separately from the text.
        tokens: the number of tokens of the output. Any value except a whole number >= 1 means that
            the number is not known. Every output has a token, and some tools write 0 for an unknown
            number.
        refused: whether the provider marked the output as a refusal.
        hidden: whether a part of a thought is not shown.
        reasoned: whether the source reports that the model thought.

    Returns:
        The output, with all visible thoughts. If the model thought and no thought is visible, the
            thought is marked as hidden.
    """
    tagged, answer = split_thought(text)
    thought = "\n".join(dict.fromkeys(t for t in (*thoughts, tagged) if t and visible(t))) or None
    return Output(
        answer=answer,
        thought=thought,
        finish=finish_of(word) or "error",
        tokens=tokens if type(tokens) is int and tokens >= 1 else None,
        refused=bool(refused),
        hidden=bool(hidden or (reasoned and thought is None)),
    )


def counted_as(output: Output, stop: Sequence[str] = ()) -> CountedAs:
    """Return the class in which an output is counted. Every output has exactly one class.

    Args:
        output: the output.
        stop: the stop strings of its decoding, which use tokens but leave no text.

    Returns:
        The class according to the table in the module docstring.
    """
    if output.finish == "filtered":
        return "filtered"
    if output.finish in ("tool", "error"):
        return "failed"
    if visible(output.answer):
        by_finish: Mapping[str, CountedAs] = {"length": "cut", "unknown": "unrecorded"}
        return by_finish.get(output.finish, "complete")
    if output.finish == "length":
        return "cut" if output.hidden or visible(output.thought) else "empty"
    return "complete" if output.finish != "unknown" and _explained(output, stop) else "empty"


def _explained(output: Output, stop: Sequence[str]) -> bool:
    """Return whether the tokens of an output explain that it has no visible answer."""
    if getattr(output, "token_ids", None) is not None:
        return True
    room = 1 + max((len(string.encode()) for string in stop), default=0)
    return output.tokens is not None and 0 <= output.tokens <= room


def is_missing(output: Output, counted: CountedAs, *, filter_in_system: bool = False) -> bool:
    """Return whether the answer of an output is missing (1 in upper bounds, 0 in lower bounds).

    Args:
        output: the output.
        counted: the class of the output.
        filter_in_system: whether a content filter belongs to the evaluated system, so that the text
            of the filter is the answer.

    Returns:
        False if the answer is scored.
    """
    if counted == "filtered":
        return not filter_in_system
    return counted in ("failed", "empty") or (counted == "cut" and not visible(output.answer))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The number of draws in each class; the classes are disjoint and add up to `draws`.

    Attributes:
        complete: outputs that the model or a stop string ended, including `refused` outputs.
        cut: outputs that the limit on tokens ended.
        filtered: outputs that a content filter or guardrail withheld.
        empty: outputs without a visible answer whose tokens do not explain why.
        failed: errors, tool calls, and draws without any result.
        unrecorded: scored outputs whose source does not record how they ended.
        refused: complete outputs that the provider marked as refusals.
        hidden: outputs whose thought, or a part of it, is not visible.
        thoughts: outputs with a visible thought.
        limit: a phrase for the limit on tokens, to which all statements about these draws are
            restricted; empty if few outputs were cut. `sentence` states the fraction of cut
            outputs.
        stops: a phrase for the stop strings that cut a reference answer or a keyword; empty if
            there are none.
        cut_mass: the probability mass of the outputs that the limit on tokens ended; None if the
            outputs were not explored.
    """

    complete: int = 0
    cut: int = 0
    filtered: int = 0
    empty: int = 0
    failed: int = 0
    unrecorded: int = 0
    refused: int = 0
    hidden: int = 0
    thoughts: int = 0
    limit: str = ""
    stops: str = ""
    cut_mass: float | None = None

    @property
    def draws(self) -> int:
        """Return the number of draws."""
        return sum(getattr(self, name) for name in _CLASSES)

    @property
    def within(self) -> str:
        """Return `limit` and `stops`; the first sentence about the draws contains these phrases."""
        return f"{self.limit}{self.stops}"

    @property
    def cut_fraction(self) -> float:
        """Return the fraction of draws that the limit on tokens ended; 0 if there are no draws."""
        return self.cut / self.draws if self.draws else 0.0

    @property
    def sentence(self) -> str:
        """Return a sentence with the number of draws in each class that has draws."""
        refused = f" ({self.refused:,} refused)" if self.refused else ""
        words = {name: name.replace("unrecorded", "finish not recorded") for name in _CLASSES}
        words["complete"] += refused
        if self.limit:
            mass = self.cut_mass
            fraction = self.cut_fraction if mass is None else mass
            words["cut"] += f" ({share(fraction)}{' of the outputs' if mass is not None else ''})"
        parts = [
            f"{n:,} {word}"
            for name, word in words.items()
            if (n := getattr(self, name)) or (name == "cut" and self.limit)
        ]
        if parts and self.complete == self.draws and not self.limit:
            parts = [f"all complete{refused}"]
        hidden = f"; {self.hidden:,} with a hidden thought" if self.hidden else ""
        return ": ".join(filter(None, [many(self.draws, "draw"), ", ".join(parts)])) + hidden

    def to_dict(self) -> dict[str, int]:
        """Return every number of draws by the name of its class, `draws` first."""
        left_out = ("limit", "stops", "cut_mass")
        counts = {name: n for name, n in asdict(self).items() if name not in left_out}
        return {"draws": self.draws, **counts}
