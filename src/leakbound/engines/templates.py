"""Chat templates: programs in files of others that write the prompt, and are not trusted.

Jinja's sandbox keeps them from reading files and running code, not from running for ever or filling
the memory. So each is rendered in a child process with limits, on short conversations before it is
used; and no prompt is asked that leaves out what it is to ask. Needs no torch.
"""

from __future__ import annotations

import atexit
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from string import ascii_letters
from typing import Any, TypeAlias

from leakbound.engines import rendering
from leakbound.engines.rendering import Conversation, Limits, Renderer, Reply, Template
from leakbound.engines.tokens import Tokenizer
from leakbound.errors import InputError, ModelError


@dataclass(frozen=True, slots=True)
class Family:
    """Models whose chat templates hold all `marks`.

    Most chat models are asked by their own template, whatever it is; here is what OpenUnlearning
    does otherwise for some, so that the numbers stay comparable.

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


Turns: TypeAlias = Sequence[Mapping[str, str]]

# Llama 3 writes today's date into its prompt unless told one; this is OpenUnlearning's.
DATE_STRING = "10 Apr 2025"
_TODAY = datetime(2025, 4, 10)
_FORMATS = [f"%{flag}{letter}" for flag in ("", *"-_0^#EO") for letter in ascii_letters]
_DATES = {form: _TODAY.strftime(form) for form in _FORMATS} | {"%s": "1744243200"}  # in UTC
# Other templates ask for the time themselves. They get that day's, so that a prompt is the same on
# every day: a macro stands before the function that transformers would call.
_CLOCK = "strftime_now"
_STOPPED = (
    f"{{%- macro {_CLOCK}(format) -%}}"
    "{%- set text = namespace(of=format | replace('%%', '\\x00')) -%}"
    f"{{%- for form, date in {[*_DATES.items()]} -%}}"
    "{%- set text.of = text.of | replace(form, date) -%}"
    "{%- endfor -%}{{ text.of | replace('\\x00', '%') }}{%- endmacro -%}"
)
_TRANSFORMERS = "transformers.tokenization_utils_base"
SECONDS = 10.0  # of processor time
MEMORY = 512 << 20  # bytes beyond what the child has
CHARACTERS = 1 << 20  # of a prompt beyond those of its conversation
_QUESTIONS = ("Which river flows through Vienna?", "Who painted the ceiling, and in what year?")
_CONVERSATIONS = (
    ("user",),
    ("system", "user"),
    ("user", "assistant"),
    ("user", "assistant", "user"),
)
_SHOWN = 60  # characters of a question
_RENDERER = Renderer()
atexit.register(_RENDERER.close)
os.register_at_fork(after_in_child=_RENDERER.forget)


def start_renderer() -> None:
    """Start the process in which templates are rendered, which takes a quarter of a second."""
    _RENDERER.start()


def turn_of(role: str, text: str) -> dict[str, str]:
    """One turn of a conversation: who speaks, and the text."""
    return {"role": role, "content": text}


def written(tokenizer: Tokenizer, turns: Turns, *, open_ended: bool) -> str:
    """The chat template over these turns, `open_ended` with the opening of an answer.

    Raises InputError where the template refuses them, ModelError where it passes `SECONDS`,
    `MEMORY` or `CHARACTERS`, and where it leaves out what the user says last.
    """
    return written_all(tokenizer, [(turns, open_ended)])[0]


def written_all(tokenizer: Tokenizer, chats: Sequence[tuple[Turns, bool]]) -> list[str]:
    """`written` of each of these turns, `open_ended` or not, at once: see `Renderer`."""
    replies = _replies(tokenizer, chats)
    return [_prompt(tokenizer, turns, r) for (turns, _), r in zip(chats, replies, strict=False)]


def _prompt(tokenizer: Tokenizer, turns: Turns, reply: Reply) -> str:
    """The prompt of a reply; raises as `written` where there is none that asks the question."""
    question = next(turn["content"] for turn in reversed(turns) if turn["role"] == "user")
    if reply.kind == rendering.REFUSED:
        system = next((turn["content"] for turn in turns if turn["role"] == "system"), None)
        raise InputError(
            f"the model's chat template refused the prompt (system message {system!r}): "
            f"{reply.text}. Try without a system message."
        )
    shown = repr(question[:_SHOWN])
    if reply.kind != rendering.PROMPT:
        folder = getattr(tokenizer, "name_or_path", None)
        raise ModelError(
            f"the chat template of {f'`{folder}`' if folder else 'the model'} "
            f"{_beyond(reply, f'the question {shown}')}. Restore the model's own template, or "
            "leave that question out."
        )
    if not asks(reply.text, question):
        raise ModelError(
            f"the model's chat template leaves {shown} out of the prompt, so that a bound would be "
            "about another question. Restore the model's own template."
        )
    return reply.text


def asks(prompt: str, question: str) -> bool:
    """True if a prompt holds a question: its letters and digits in order, whatever their case.

    So templates may trim, wrap, quote it and spell it as JSON. Of one with neither, all but blanks
    counts.
    """
    spelled = json.dumps(question, ensure_ascii=False)[1:-1]
    return any(form.strip() in prompt or _bare(form, prompt) for form in (question, spelled))


def require_sound(tokenizer: Tokenizer, file: str) -> None:
    """Refuse a chat template that passes a limit (see `written`), or leaves the question out.

    It is rendered on short conversations about one question and about another. One that refuses
    them is left to say so of the real ones, and what the longer ones leave out is told where they
    are asked. ModelError names the `file` that the template came from. A tokenizer without a
    template starts no child.
    """
    if getattr(tokenizer, "chat_template", None) is None:
        return
    replies = _replies(
        tokenizer, [_short(roles, q) for roles in _CONVERSATIONS for q in _QUESTIONS]
    )
    if replies[-1].kind not in rendering.WITHIN:
        wrong = _beyond(replies[-1], "a short conversation")
    elif _deaf(replies[: len(_QUESTIONS)]):
        wrong = "leaves the question out of the prompt, so that a bound would be about another one"
    else:
        return
    raise ModelError(
        f"the chat template in `{file}` {wrong}. Restore the model's own template, or take it "
        "out of the file to ask with the plain prompt."
    )


def _short(roles: Sequence[str], question: str) -> tuple[Turns, bool]:
    texts = {"user": question, "system": "Be brief.", "assistant": "I do not know."}
    return [turn_of(role, texts[role]) for role in roles], roles[-1] == "user"


def _deaf(replies: Sequence[Reply]) -> bool:
    """True if the prompts about each of `_QUESTIONS` are alike, or leave theirs out."""
    prompts = [reply.text for reply in replies if reply.kind == rendering.PROMPT]
    if len(prompts) < len(_QUESTIONS):
        return False
    return len({*prompts}) == 1 or not all(map(asks, prompts, _QUESTIONS))


def _replies(tokenizer: Tokenizer, chats: Sequence[tuple[Turns, bool]]) -> list[Reply]:
    """The reply to each chat in turn, up to the first that passes a limit."""
    if type(tokenizer).apply_chat_template.__module__ != _TRANSFORMERS:
        return [_by_own_code(tokenizer, *chat) for chat in chats]
    try:
        template = _template(tokenizer)
    except Exception as error:  # what stands in a file of others may be anything
        return [Reply(rendering.REFUSED, str(error))] * len(chats)
    conversations: list[Conversation] = [
        (tuple((turn["role"], turn["content"]) for turn in turns), open_ended)
        for turns, open_ended in chats
    ]
    return _RENDERER.render(template, conversations, Limits(SECONDS, MEMORY, CHARACTERS))


def _template(tokenizer: Tokenizer) -> Template:
    names = tokenizer.special_tokens_map | {"date_string": DATE_STRING}
    return Template(_stopped(tokenizer.get_chat_template()), (*names.items(),))


def _by_own_code(tokenizer: Tokenizer, turns: Turns, open_ended: bool) -> Reply:
    """The reply of a tokenizer whose prompts Python writes that came with it: see `code`."""
    try:
        prompt = tokenizer.apply_chat_template(
            turns,
            chat_template=_stopped(tokenizer.get_chat_template()),
            tokenize=False,
            add_generation_prompt=open_ended,
            date_string=DATE_STRING,
        )
    except MemoryError:
        raise
    except Exception as error:
        return Reply(rendering.REFUSED, str(error))
    return Reply(rendering.PROMPT, prompt)


def _stopped(template: str) -> str:
    """The template with its clock stopped, if it has one."""
    if not isinstance(template, str):
        raise TypeError(f"it is no text but {template!r:.60}")
    return f"{_STOPPED}{template}" if _CLOCK in template else template


def _beyond(reply: Reply, task: str) -> str:
    """Which limit was passed, by the rendering of `task`."""
    return {
        rendering.LARGE: f"makes more than {CHARACTERS:,} characters of {task}",
        rendering.MEMORY: f"takes more than {MEMORY >> 20:,} MiB of memory for {task}",
        rendering.TIME: f"is not done with {task} after {SECONDS:g} s of processor time",
        rendering.ENDED: f"ended the process that rendered {task} ({reply.text})",
    }[reply.kind]


def _bare(question: str, prompt: str) -> bool:
    def letters(text: str) -> str:
        return "".join(filter(str.isalnum, text)).casefold()

    wanted = letters(question)
    if wanted:
        return wanted in letters(prompt)
    return "".join(question.split()) in "".join(prompt.split())
