"""Chat templates rendered in a child process, within limits of processor time, memory and size.

This file is both ends of a pipe. The parent's is `Renderer`; the child runs the file by itself. It
gets no environment variable of the parent's but where libraries lie, no open file but the pipe, and
no module of leakbound; it renders by the function of the installed transformers that does so.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

Conversation: TypeAlias = tuple[tuple[tuple[str, str], ...], bool]
"""Turns, each a role and what it says, and whether the answer to them is opened."""

# What came of a conversation: a prompt, the template's own refusal, or a limit that was passed.
PROMPT, REFUSED, LARGE, MEMORY, TIME, ENDED = range(6)
WITHIN = (PROMPT, REFUSED)
_BATCH = 256  # conversations of one task
_KEPT = 1 << 25  # characters of prompts that are remembered
_SHOWN = 1000  # characters of a refusal
_INHERITED = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_MODULE = "transformers.utils.chat_template_utils"
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class Template(NamedTuple):
    """A template as Jinja reads it, and the names that it may use, each with its text."""

    source: str
    names: tuple[tuple[str, str], ...]


class Limits(NamedTuple):
    """The most that the rendering of one conversation may take.

    seconds: of processor time.
    memory: bytes beyond what the child has before; Linux alone keeps to it.
    characters: of the prompt, beyond those of the conversation.
    """

    seconds: float
    memory: int
    characters: int


class Reply(NamedTuple):
    """A conversation's outcome: its kind, and the prompt, the refusal, or how the child ended."""

    kind: int
    text: str


class Renderer:
    """Renders templates in one child, started when it is first needed, and remembers prompts.

    A child that passes a limit is ended, and the next rendering starts another. It ends with this
    process, however that ends.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew, as a fork of this process must: the child is its parent's."""
        self._lock = Lock()
        self._child: subprocess.Popen[str] | None = None
        self._known: dict[tuple[Template, Conversation], str] = {}
        self._size = 0

    def start(self) -> None:
        """Let the child get ready meanwhile."""
        with self._lock:
            self._started()

    def close(self) -> None:
        """End the child."""
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        with suppress(BrokenPipeError), child:  # closes the pipes and waits
            pass

    def render(
        self, template: Template, conversations: Sequence[Conversation], limits: Limits
    ) -> list[Reply]:
        """The reply to each conversation in turn, up to the first that passes a limit."""
        reply_of: dict[Conversation, Reply] = {}
        with self._lock:
            for chat in conversations:
                if (prompt := self._known.get((template, chat))) is not None:
                    reply_of[chat] = Reply(PROMPT, prompt)
            new = [chat for chat in dict.fromkeys(conversations) if chat not in reply_of]
            for start in range(0, len(new), _BATCH):
                batch = new[start : start + _BATCH]
                for chat, reply in zip(batch, self._ask(template, batch, limits), strict=False):
                    reply_of[chat] = reply
                    self._keep((template, chat), reply)
                if self._child is None:
                    break
        replies = [reply_of[chat] for chat in conversations if chat in reply_of]
        beyond = (at for at, reply in enumerate(replies, start=1) if reply.kind not in WITHIN)
        return replies[: next(beyond, None)]

    def _keep(self, key: tuple[Template, Conversation], reply: Reply) -> None:
        if reply.kind == PROMPT:
            self._known[key] = reply.text
            self._size += len(reply.text)
        while self._size > _KEPT:
            self._size -= len(self._known.pop(next(iter(self._known))))

    def _ask(
        self, template: Template, batch: Sequence[Conversation], limits: Limits
    ) -> list[Reply]:
        """The child's replies, up to the first that is not `WITHIN` limits: it is ended then."""
        child, replies = self._started(), list[Reply]()
        try:
            _write(child, [template.source, dict(template.names), limits, batch])
            while len(replies) < len(batch) and all(r.kind in WITHIN for r in replies[-1:]):
                replies.append(_read(child))
            return replies
        finally:  # whatever else is raised meanwhile: what the child goes on to write is not read
            if len(replies) < len(batch) or replies[-1].kind not in WITHIN:
                self.close()

    def _started(self) -> subprocess.Popen[str]:
        if self._child is not None and self._child.poll() is None:
            return self._child
        self.close()
        kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        self._child = subprocess.Popen(
            [sys.executable, "-I", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="ascii",
            cwd="/",
            env=kept | _ONE_THREAD,
            process_group=0,  # Ctrl-C is for its parent
        )
        _write(self._child, [os.path.abspath(folder) for folder in sys.path])
        return self._child


def _write(child: subprocess.Popen[str], task: Any) -> None:
    assert child.stdin is not None
    with suppress(BrokenPipeError):  # it has ended, which reading tells
        print(json.dumps(task), file=child.stdin, flush=True)


def _read(child: subprocess.Popen[str]) -> Reply:
    assert child.stdout is not None
    line = child.stdout.readline()
    if line.endswith("\n"):
        return Reply(*json.loads(line))
    status = child.wait()
    if status == -signal.SIGPROF:
        return Reply(TIME, "")
    return Reply(ENDED, f"signal {-status}" if status < 0 else f"exit code {status}")


def _serve() -> None:
    """Do the child's work: of each task that it reads, write a reply for every conversation."""
    sys.path[:] = json.loads(sys.stdin.readline())
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # which no template can catch
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGPROF,))
    render = _render()
    for line in sys.stdin:
        source, names, limits, conversations = json.loads(line)
        seconds, memory, characters = limits
        _limit_memory(memory)
        how = partial(render, chat_template=source, **names)
        for pairs, open_ended in conversations:
            turns = [{"role": role, "content": text} for role, text in pairs]
            most = characters + sum(len(text) for _, text in pairs)
            signal.setitimer(signal.ITIMER_PROF, seconds)
            reply = json.dumps(_made(partial(how, [turns], add_generation_prompt=open_ended), most))
            signal.setitimer(signal.ITIMER_PROF, 0)
            print(reply, flush=True)


def _render() -> Any:
    """The function of transformers, from its file alone: torch and other packages take seconds."""
    modules: dict[str, Any] = sys.modules
    modules["torch"] = None  # it is not there
    around = ("transformers", "transformers.utils")
    try:
        for name in around:
            if spec := find_spec(name):
                modules[name] = module_from_spec(spec)
        return import_module(_MODULE).render_jinja_template
    except Exception:  # in a version of it where the file needs what is around it
        for name in [name for name in modules if name.startswith(around[0])]:
            del modules[name]
        return import_module(_MODULE).render_jinja_template


def _made(render: Callable[[], Any], most: int) -> Reply:
    try:
        (prompt,), _ = render()
    except MemoryError:
        return Reply(MEMORY, "")
    except Exception as error:  # of any kind: a template is a program
        return Reply(REFUSED, str(error)[:_SHOWN])
    return Reply(LARGE, "") if len(prompt) > most else Reply(PROMPT, prompt)


def _limit_memory(beyond: int) -> None:
    if sys.platform != "linux":
        return
    import resource

    with open("/proc/self/statm", encoding="ascii") as stream:
        pages = int(stream.read().split()[0])
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    with suppress(ValueError):  # a lower limit is set already
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + beyond, hard))


if __name__ == "__main__":
    _serve()
