"""Chat templates: programs in files of others that write the prompt, tried before they are trusted.

Jinja's sandbox keeps them from reading files and running code, not from running for ever or filling
the memory. So a template is first tried on short conversations in a child process with limits; and
no prompt is asked that leaves out what it is to ask. Needs no torch.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from multiprocessing.connection import Connection
from typing import TypeAlias

from leakbound.engines.splitting import Tokenizer
from leakbound.errors import InputError, ModelError

Turns: TypeAlias = Sequence[Mapping[str, str]]

# Llama 3 writes today's date into its prompt unless told one; this is OpenUnlearning's.
DATE_STRING = "10 Apr 2025"
_TODAY = datetime(2025, 4, 10)
_FORMATS = ("%-d", "%-m", *(f"%{letter}" for letter in "YymdBbAaHMSjF"))
# Other templates ask for the time themselves. They get that day's, so that a prompt is the same on
# every day: a macro stands before the function that transformers would call.
_CLOCK = "strftime_now"
_STOPPED = (
    f"{{%- macro {_CLOCK}(format) -%}}{{{{ format"
    + "".join(f" | replace('{one}', '{_TODAY.strftime(one)}')" for one in _FORMATS)
    + " }}{%- endmacro -%}"
)
SECONDS = 30.0  # for all conversations below together: the slowest known template takes 0.1
CHARACTERS = 1 << 20  # of one prompt
MEMORY = 512 << 20  # bytes beyond what this process has
_QUESTIONS = ("Which river flows through Vienna?", "Who painted the ceiling, and in what year?")
_CONVERSATIONS = (
    ("user",),
    ("system", "user"),
    ("user", "assistant"),
    ("user", "assistant", "user"),
)
_SOUND, _LARGE, _MEMORY, _DEAF = "sound", "large", "memory", "deaf"


def said(role: str, text: str) -> dict[str, str]:
    """What one side of a conversation says."""
    return {"role": role, "content": text}


def written(tokenizer: Tokenizer, turns: Turns, *, open_ended: bool) -> str:
    """The chat template over these turns, `open_ended` with the opening of an answer.

    Raises InputError where the template refuses them, ModelError where it leaves out what the
    user says last.
    """
    try:
        prompt = _rendered(tokenizer, turns, open_ended=open_ended)
    except MemoryError:
        raise
    except Exception as error:  # of any kind: a template is a program
        system = next((one["content"] for one in turns if one["role"] == "system"), None)
        raise InputError(
            f"the model's chat template refused the prompt (system message {system!r}): {error}. "
            "Try without a system message."
        ) from error
    question = next(one["content"] for one in reversed(turns) if one["role"] == "user")
    if not asks(prompt, question):
        raise ModelError(
            f"the model's chat template leaves {question[:60]!r} out of the prompt, so that a "
            "bound would be about another question. Restore the model's own template."
        )
    return prompt


def asks(prompt: str, question: str) -> bool:
    """True if a prompt holds a question: its letters and digits in order, whatever their case.

    So templates may trim, wrap, quote it and spell it as JSON. Of one with neither, all but blanks
    counts.
    """
    spelled = json.dumps(question, ensure_ascii=False)[1:-1]
    return any(form.strip() in prompt or _bare(form, prompt) for form in (question, spelled))


def require_sound(tokenizer: Tokenizer, file: str) -> None:
    """Refuse a chat template that does not end, makes gigabytes, or leaves the question out.

    It is rendered in a child process, with `SECONDS`, `MEMORY` and `CHARACTERS` as limits; on
    systems other than Linux in this one, where the last alone holds. One that refuses these
    conversations is left to say so of the real ones (see `written`). ModelError names the `file`
    that the template came from. A tokenizer without a template starts no child.
    """
    if getattr(tokenizer, "chat_template", None) is None:
        return
    found = _in_child(lambda: _tried(tokenizer)) if sys.platform == "linux" else _tried(tokenizer)
    known = {
        _SOUND: None,
        _DEAF: "leaves the question out of the prompt, so that a bound would be about another one",
        _LARGE: f"makes more than {CHARACTERS:,} characters of a short conversation",
        _MEMORY: f"takes more than {MEMORY >> 20:,} MiB of memory for a short conversation",
        None: f"is not done with a short conversation after {SECONDS:g} s",
    }
    wrong = known.get(found, f"ended the process that tried it ({found})")
    if wrong is not None:
        raise ModelError(
            f"the chat template in `{file}` {wrong}. Restore the model's own template, or take it "
            "out of the file to ask with the plain prompt."
        )


def _tried(tokenizer: Tokenizer) -> str:
    """What the template makes of the conversations: the first thing that is wrong, or `_SOUND`."""
    found = (_made_of(tokenizer, roles) for roles in _CONVERSATIONS)
    return next((wrong for wrong in found if wrong != _SOUND), _SOUND)


def _made_of(tokenizer: Tokenizer, roles: Sequence[str]) -> str:
    """What it makes of a conversation of these roles, about one question and about the other.

    What the longer ones leave out is told where they are asked.
    """
    prompts = []
    for question in _QUESTIONS:
        texts = {"user": question, "system": "Be brief.", "assistant": "I do not know."}
        turns = [said(role, texts[role]) for role in roles]
        try:
            prompts.append(_rendered(tokenizer, turns, open_ended=roles[-1] == "user"))
        except MemoryError:
            return _MEMORY
        except Exception:  # it refuses, as some do system messages, and will say so again
            return _SOUND
        if len(prompts[-1]) > CHARACTERS:
            return _LARGE
    heard = all(map(asks, prompts, _QUESTIONS)) and prompts[0] != prompts[1]
    return _SOUND if heard or len(roles) > 1 else _DEAF


def _in_child(function: Callable[[], str]) -> str | None:
    """What the function says in a fork of this process; None where it is not done in time.

    A fork costs milliseconds, a new interpreter with transformers seconds. The child computes in
    Python alone and then ends: it takes no lock that another thread of this process may hold.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_say, args=(sender, function), daemon=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads, since 3.12
        child.start()
    sender.close()
    try:
        if not receiver.poll(SECONDS):
            return None
        found: str = receiver.recv()
        return found
    except EOFError:
        child.join()
        return f"exit code {child.exitcode}"
    finally:
        child.kill()
        child.join()
        child.close()
        receiver.close()


def _say(sender: Connection, function: Callable[[], str]) -> None:
    with suppress(KeyboardInterrupt, BrokenPipeError):
        _limit_memory()
        sender.send(function())


def _limit_memory() -> None:
    import resource

    with open("/proc/self/statm", encoding="ascii") as stream:
        pages = int(stream.read().split()[0])
    most = pages * resource.getpagesize() + MEMORY
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    with suppress(ValueError, OSError):  # a lower limit is set already
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def _rendered(tokenizer: Tokenizer, turns: Turns, *, open_ended: bool) -> str:
    template = tokenizer.get_chat_template()
    prompt: str = tokenizer.apply_chat_template(
        turns,
        chat_template=f"{_STOPPED}{template}" if _CLOCK in template else template,
        tokenize=False,
        add_generation_prompt=open_ended,
        date_string=DATE_STRING,
    )
    return prompt


def _bare(question: str, prompt: str) -> bool:
    def letters(text: str) -> str:
        return "".join(filter(str.isalnum, text)).casefold()

    wanted = letters(question)
    if wanted:
        return wanted in letters(prompt)
    return "".join(question.split()) in "".join(prompt.split())
