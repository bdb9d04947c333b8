"""Chat templates: untrusted programs in the model's files that write the prompt.

transformers renders chat templates in Jinja's sandbox, which prevents reading
files and running code. The sandbox limits neither the time nor the memory of a
template. A rendered prompt that does not contain its question is refused. This
module does not need torch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from string import ascii_letters
from typing import Any, TypeAlias

from leakbound.engines.tokens import Tokenizer
from leakbound.errors import InputError, ModelError


@dataclass(frozen=True, slots=True)
class Family:
    """Models whose chat templates contain all `marks`.

    A chat model is used with its own template. OpenUnlearning makes exceptions for some families;
    this package makes the same exceptions, so that the numbers are comparable.

    Attributes:
        system: whether a benchmark's system message opens the conversations of these models.
        turn: the format of a single question without a system message, if OpenUnlearning writes it
            without the template. For such a family, an answer is the text between this prompt and
            EOS.
    """

    name: str
    marks: tuple[str, ...] = ()
    system: bool = True
    turn: str | None = None


BASE = Family("base")
CHAT = Family("chat")
# The first family that fits is used. Llama-2-chat gets only `<s>[INST] question [/INST]`.
FAMILIES = (
    Family("llama-2-chat", ("[INST]", "<<SYS>>"), system=False, turn="[INST] {question} [/INST]"),
    Family("llama-3", ("<|start_header_id|>", "<|eot_id|>")),
    CHAT,
)


def family_of(tokenizer: Any) -> Family:
    """Return the family of a tokenizer; `BASE` without a chat template."""
    template = getattr(tokenizer, "chat_template", None)
    if template is None:
        return BASE
    text = str(template)  # a dictionary if there are several templates
    return next(family for family in FAMILIES if all(mark in text for mark in family.marks))


Turns: TypeAlias = Sequence[Mapping[str, str]]

# Llama 3 writes today's date into its prompt unless it gets a date; this is the date of
# OpenUnlearning.
DATE_STRING = "10 Apr 2025"
_TODAY = datetime(2025, 4, 10)
_FORMATS = [f"%{flag}{letter}" for flag in ("", *"-_0^#EO") for letter in ascii_letters]
_DATES = {form: _TODAY.strftime(form) for form in _FORMATS} | {"%s": "1744243200"}  # in UTC
# Other templates read the clock; a macro makes a prompt the same every day.
_CLOCK = "strftime_now"
_STOPPED = (
    f"{{%- macro {_CLOCK}(format) -%}}"
    "{%- set text = namespace(of=format | replace('%%', '\\x00')) -%}"
    f"{{%- for form, date in {[*_DATES.items()]} if form in format -%}}"
    "{%- set text.of = text.of | replace(form, date) -%}"
    "{%- endfor -%}{{ text.of | replace('\\x00', '%') }}{%- endmacro -%}"
)
_QUESTIONS = ("Which river flows through Vienna?", "Who painted the ceiling, and in what year?")
_SHOWN = 60  # characters of a question


def turn_of(role: str, text: str) -> dict[str, str]:
    """Return one turn of a conversation: the speaker and the text."""
    return {"role": role, "content": text}


def written(
    tokenizer: Tokenizer, turns: Turns, *, open_ended: bool, thinking: bool | None = None
) -> str:
    """Render the chat template with these turns and, if `open_ended`, the opening of an answer.

    `thinking`: the value of `enable_thinking` that is passed to the template (None: no value is
    passed).

    Raises InputError if the template refuses the turns, and ModelError if it leaves out the last
    message of the user.
    """
    settings = {} if thinking is None else {"enable_thinking": thinking}
    prompt = _rendered(tokenizer, turns, open_ended, **settings)
    question = next(turn["content"] for turn in reversed(turns) if turn["role"] == "user")
    if not contains_question(prompt, question):
        raise ModelError(
            f"the model's chat template omits the question {question[:_SHOWN]!r} from the prompt, "
            "so bounds would be about another prompt. Restore the model's original template."
        )
    return prompt


def _rendered(tokenizer: Tokenizer, turns: Turns, open_ended: bool, **settings: bool) -> str:
    try:
        template = tokenizer.get_chat_template()
        prompt: str = tokenizer.apply_chat_template(
            turns,
            chat_template=f"{_STOPPED}{template}" if _CLOCK in template else template,
            tokenize=False,
            add_generation_prompt=open_ended,
            date_string=DATE_STRING,
            **settings,
        )
    except MemoryError:
        raise  # not a fault of the template
    except Exception as error:  # of any kind: a template is a program
        system = next((turn["content"] for turn in turns if turn["role"] == "system"), None)
        fix = "Correct the template." if system is None else "Try without a system message."
        raise InputError(
            f"the model's chat template refused the prompt (system message {system!r}): "
            f"{error}. {fix}"
        ) from error
    return prompt


def contains_question(prompt: str, question: str) -> bool:
    """Return whether a prompt contains the letters and digits of a question, in order.

    Upper and lower case are not distinguished. So a template may trim, wrap or quote the question,
    or write it as JSON. A question without letters and digits must occur in the prompt, apart from
    blanks.
    """
    spelled = json.dumps(question, ensure_ascii=False)[1:-1]
    return any(form.strip() in prompt or _bare(form, prompt) for form in (question, spelled))


def require_sound(tokenizer: Tokenizer, file: str) -> None:
    """Raise ModelError for a chat template that leaves a test question out of its prompt.

    A template that raises an error for the test questions is accepted here, because its error
    appears again with the real questions. The error message contains the `file` of the template.
    """
    if getattr(tokenizer, "chat_template", None) is None:
        return
    try:
        prompts = [_rendered(tokenizer, [turn_of("user", q)], open_ended=True) for q in _QUESTIONS]
    except InputError:
        return
    if prompts[0] == prompts[1] or not all(map(contains_question, prompts, _QUESTIONS)):
        raise ModelError(
            f"the chat template in `{file}` changes or omits the question. Restore the original "
            "template, or remove it from the file to use the prompt without a template."
        )


def _bare(question: str, prompt: str) -> bool:
    def letters(text: str) -> str:
        return "".join(filter(str.isalnum, text)).casefold()

    wanted = letters(question)
    if wanted:
        return wanted in letters(prompt)
    return "".join(question.split()) in "".join(prompt.split())
