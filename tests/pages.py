"""Run the blocks of a documentation page as a reader would.

Blocks of `sh` and `python` are run, and test functions in them are called. A line
`<!-- not run: why -->` above a block, or `<!-- not run, this page: why -->` in its page, skips
it. A line `<!-- file: NAME -->` above a block writes it into the folder of the page. A block of
`text` is compared with the output of the block before it: same words in the same order, any figure
for a figure, any text for `[…]`.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from cli.commands import leakbound

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
VERDICTS = (0, 4, 5)

_FENCE = re.compile(r"(?:^<!-- (not run|file): (.+?) -->\n)?^```(\w*)\n(.*?)^```$", re.M | re.S)
_PAGE = re.compile(r"^<!-- not run, this page: (.+?) -->$", re.M)
_FRAMES = re.compile(r"[\s│┃━─┏┓┗┛┡┩└┘┳┻╇┴╋┼]+")
_FIGURE = r"[−+<>]?\d[\d,]*(?:\.\d+)?(?:e[-−]?\d+)?"
_ECHO = "leakbound() { printf '%s\\0' $# \"$@\"; }; set -e; PATH=\n"


class Block(NamedTuple):
    """One fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str
    why_not: str | None = None
    file: str | None = None

    @property
    def place(self) -> str:
        """Page and line, for a message."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    """All blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    whole = _PAGE.search(text)
    for got in _FENCE.finditer(text):
        mark, printed, language, body = got.groups()
        why_not = printed if mark == "not run" else whole and whole[1]
        line = text.count("\n", 0, got.start()) + 1
        yield Block(page, line, language, body, why_not, printed if mark == "file" else None)


def run_page(page: Path, names: dict[str, Any]) -> list[str]:
    """Run the blocks of a page in order and return the failures; Python blocks share `names`."""
    wrong, printed = [], ""
    for block in blocks(page):
        if block.file:
            path = Path(block.file)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        if block.why_not:
            printed = ""
        elif block.language == "text" and not block.file:
            if printed and not shown(block.text, printed):
                wrong.append(f"{block.place}: this was printed instead:\n{printed[-3000:]}")
        elif block.language in ("sh", "python"):
            try:
                printed = run_block(block, names)
            except Exception as error:
                wrong.append(f"{block.place}: {error!r}")
    return wrong


def run_block(block: Block, names: dict[str, Any]) -> str:
    """Run a block and return its output; raise AssertionError if a command fails."""
    if block.language == "python":
        if block.file:
            return ""
        out, before = io.StringIO(), set(names)
        with redirect_stdout(out):
            exec(compile(block.text, block.place, "exec"), names)
            for test in [v for k, v in names.items() if k.startswith("test_") and k not in before]:
                test()
        return out.getvalue()
    return "".join(map(_run, _commands(block.text)))


def _commands(text: str) -> Iterator[list[str]]:
    """Yield the arguments of each `leakbound` call of a script, which may contain nothing else."""
    command = ["/bin/bash", "-c", _ECHO + text]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ))
    assert done.returncode == 0, f"the script contains other commands: {done.stderr}"
    words = iter(done.stdout.split("\0")[:-1])
    for number in words:
        yield [next(words) for _ in range(int(number))]


def _run(arguments: list[str]) -> str:
    done = leakbound(*arguments)
    allowed = VERDICTS if arguments[0] == "certify" else (0,)
    assert done.status in allowed, f"{' '.join(arguments)}: {done.status}: {done.err[-600:]}"
    return done.out


def shown(expected: str, printed: str) -> bool:
    """Return whether the output matches a text block, except for figures and omissions."""
    parts = [re.split(f"({_FIGURE})", _plain(part)) for part in re.split(r"\[…\]", expected)]
    patterns = ["".join(_FIGURE if i % 2 else re.escape(w) for i, w in enumerate(p)) for p in parts]
    return re.search(r".*?".join(filter(None, patterns)), _plain(printed)) is not None


def _plain(text: str) -> str:
    """Return the text in one line, without the frames of tables."""
    return _FRAMES.sub(" ", text).strip()


def resolved(path: str) -> object:
    """Return the object at a dotted path; a module takes precedence over a function."""
    words = path.split(".")
    for cut in range(len(words), 0, -1):
        try:
            module = import_module(".".join(words[:cut]))
        except ModuleNotFoundError:
            continue
        return reduce(getattr, words[cut:], module)
    raise AssertionError(path)
