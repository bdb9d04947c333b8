"""Families of models as they are prompted, told apart by the chat template of their tokenizer.

Most chat models are asked by their own template, whatever it is; here is what OpenUnlearning does
otherwise for some, so that the numbers stay comparable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Family:
    """Models whose chat templates hold all `marks`.

    `system`: a benchmark's own system message opens its conversations. `turn`: how one question
    without a system message is written, if OpenUnlearning writes it without the template; answers
    to these models stand right after the prompt and before EOS.
    """

    name: str
    marks: tuple[str, ...] = ()
    system: bool = True
    turn: str | None = None


BASE = Family("base")
CHAT = Family("chat")
# The first that fits. Llama-2-chat is asked `<s>[INST] question [/INST]` and nothing else.
FAMILIES = (
    Family("llama-2-chat", ("[INST]", "<<SYS>>"), system=False, turn="[INST] {question} [/INST]"),
    Family("llama-3", ("<|start_header_id|>", "<|eot_id|>")),
    CHAT,
)


def family_of(tokenizer: Any) -> Family:
    """The family of a tokenizer; `BASE` for one without a chat template."""
    template = getattr(tokenizer, "chat_template", None)
    if template is None:
        return BASE
    text = str(template)  # a dictionary where there are several
    return next(family for family in FAMILIES if all(mark in text for mark in family.marks))
