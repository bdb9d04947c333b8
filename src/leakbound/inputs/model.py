"""Draw rewritings from a chat model: the input distribution of Cheng et al. (2025).

The paper does not specify the prompt for rewriting or the parsing of replies, so both are ours.
Each rewriting is a separate reply, so the draws are independent. Several rewritings from one reply
would not be independent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from leakbound.errors import InputError
from leakbound.inputs.english import is_question, is_request
from leakbound.text.counting import split_thought
from leakbound.text.keywords import normalise
from leakbound.types import Chat, Decoding, Message, Prompt, Request

REWRITING = Decoding(temperature=1.0, top_p=0.95, max_new_tokens=128)
"""The decoding of rewritings."""
ATTEMPTS = 3
"""The maximum number of draws of a reply, until the reply is a rewriting."""

_INSTRUCTION = """\
Rewrite the question below once. Ask for exactly the same thing in other words. Keep every name, \
number, date and title as it is written. Do not answer the question and add no information. \
Reply with the rewritten question alone.

Question: {question}"""

_NUMBERING = re.compile(r"^(?:[-*•>#]+|\(?\d{1,2}[.):])\s+")
_COURTESY = re.compile(
    r"^(?:sure|certainly|of course|okay|ok|absolutely|here(?: is|'s|’s| you go))\b[^?:]*?[:!,.]\s+",
    re.IGNORECASE,
)
_LABEL = re.compile(
    r"^(?:(?:the |your )?"
    r"(?:(?:original|new|given|revised|refined|translated|paraphrased|"
    r"re(?:written|phrased|worded)) ?)?(?:question|query|version|answer)?"
    r"|(?:rewrit(?:e|ing)|rephras(?:e|ing)|paraphrase|translat(?:e|ion))(?: (?:the|this) question)?"
    r"|q|topic)(?: \d{1,2})?\s*:\s*",
    re.IGNORECASE,
)
_QUOTES = {'"': '"', "“": "”", "'": "'", "‘": "’", "`": "`", "*": "*"}
_MARKS = " \"'“”‘’"  # the marks between an introduction and the text after it
_ENDS = "?." + _MARKS
_OTHER_MARKS = ("？", "؟")  # of questions in Chinese, Japanese and Arabic
_ASKING = re.compile(
    r"(?:(?:can|could|will|would) you|please|i (?:would|want|wonder|am|need|wish)|let me)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInputs:
    """Draws from a chat model that rewrites the question.

    A reply is drawn again if it is empty or missing, contains no question or request, or repeats
    the question. It is drawn at most `ATTEMPTS` times. If no attempt succeeds, the last reply is
    kept, and the filters remove and count it. An accepted reply has the distribution of the model's
    replies given that the reply is a rewriting. So the draws stay independent.
    """

    chat: Chat

    finite: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return f"model:{self.chat.name}"

    @property
    def fingerprint(self) -> dict[str, str]:
        """The decoding, the number of attempts, and the record of the model if it has one."""
        model: Mapping[str, str] = getattr(self.chat, "fingerprint", {})
        return {"decoding": REWRITING.name, "attempts": str(ATTEMPTS), **model}

    def rewritings(self, prompts: Sequence[Prompt], number: int, seed: int) -> list[list[str]]:
        texts = [[""] * number for _ in prompts]
        open_draws = [(at, draw) for at in range(len(prompts)) for draw in range(number)]
        for attempt in range(ATTEMPTS):
            requests = [_request(prompts[at], draw, attempt) for at, draw in open_draws]
            for (at, draw), reply in zip(open_draws, self._replies(requests, seed), strict=True):
                texts[at][draw] = _unled(parse_reply(reply or ""), prompts[at].question)
            open_draws = [
                (at, draw)
                for at, draw in open_draws
                if not texts[at][draw]
                or normalise(texts[at][draw]) == normalise(prompts[at].question)
            ]
        return texts

    def _replies(self, requests: Sequence[Request], seed: int) -> list[str | None]:
        replies = self.chat.chat(requests, REWRITING, seed) if requests else []
        if len(replies) != len(requests):
            raise InputError(
                f"chat model {self.chat.name!r} must return one reply per request, got "
                f"{len(replies)} for {len(requests)}. Return None for a missing reply."
            )
        return replies


def parse_reply(reply: str) -> str:
    """Return the first line of a reply that is a question or request, without decoration.

    Thoughts in tags, courtesies, labels, numbering and quotation marks are removed. The result is
    "" if there is no such line, for example in an answer, a refusal, or a text that was cut off.
    """
    lines = map(_bare, split_thought(reply)[1].splitlines())
    return next((line for line in lines if _is_request_like(line)), "")


def _request(prompt: Prompt, draw: int, attempt: int) -> Request:
    text = _INSTRUCTION.format(question=prompt.question)
    return Request(
        id=f"{prompt.id}#rewriting {draw}.{attempt}", messages=(Message(role="user", text=text),)
    )


def _bare(line: str) -> str:
    """Return the line without the marks and introductory words around the question."""
    text = line.strip()
    while True:
        inner = _LABEL.sub("", _COURTESY.sub("", _NUMBERING.sub("", text.strip("*_ \t"))))
        close = _QUOTES.get(inner[:1])
        if close and len(inner) > 1 and inner.find(close, 1) == len(inner) - 1:
            inner = inner[1:-1]
        if inner == text:
            return text
        text = inner


def _unled(text: str, question: str) -> str:
    """Return only the question if the text is a label or sentence, followed by this question."""
    lead, same, tail = text.casefold().rpartition(question.casefold().rstrip(_ENDS))
    led = lead.rstrip(_MARKS).endswith((":", ".", "!", "?"))
    return question if same and led and not tail.strip(_ENDS) else text


def _is_request_like(line: str) -> bool:
    ended = line.endswith((".", "?"))
    return (
        is_question(line)
        or line.endswith(_OTHER_MARKS)
        or (ended and (is_request(line) or bool(_ASKING.match(line))))
    )
