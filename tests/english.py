"""Words of our former dialect, and the length of sentences, in docs, docstrings and messages.

"scripts" are the docstrings of tests, bench and experiments; page templates count as messages.
`python tests/english.py` prints the rates, and with a folder or file the places to rewrite.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from budgets import PACKAGE, ROOT, Source, docstrings, package

DIALECT = re.compile(
    r"\b(whoever|whatever|beside|anew|once more|alike|alone|by itself|by name|told|tells|said|says"
    r"|asked|asks|beforehand|at once|goes on|went on|go on|mend|mends|law|laws|another's|stands?"
    r"|lies|holds together|how many|how often|how sure|how far|the share|that is none|such as it"
    r"|is none|are none|of its own|what is|what it|nobody asked)\b",
    re.IGNORECASE,
)
SENTENCE = re.compile(r"(?<=[.!?:])\s+(?=[A-Z`\"(])|\n\s*\n|\n\s*[-*|] ")
"""A place between two sentences: an end, an empty line, an item of a list or a row of a table."""
CODE = re.compile(r"```.*?```", re.DOTALL)
MARKUP = re.compile(r"\{([{%#]).*?[}%#]\}|<(style|script)\b.*?</\2>|<[^>]*>", re.DOTALL)


def explained(source: Source) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of every docstring."""
    for statement, text in docstrings(source.tree):
        yield statement.lineno, text


def messages(source: Source) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of every literal of several words outside docstrings."""
    tree = source.tree
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in skipped else None
        if isinstance(text, str) and len(text.split()) > 2:
            yield node.lineno, text


def pages(file: Path, hidden: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of every paragraph, without code blocks or markup."""
    text = hidden.sub(lambda block: "\n" * block[0].count("\n"), file.read_text("utf-8"))
    line = 1
    for paragraph in re.split(r"(\n\s*\n)", text):
        if paragraph.strip():
            yield line, paragraph
        line += paragraph.count("\n")


def texts() -> dict[str, list[tuple[Path, int, str]]]:
    """Return every text with its file and line, by kind."""
    docs = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
    code = [(PACKAGE / source.path, source) for source in package()]
    folders = (ROOT / name for name in ("tests", "bench", "experiments"))
    scripts = [(below / source.path, source) for below in folders for source in Source.below(below)]
    templates = sorted(PACKAGE.rglob("*.html"))
    shown = [(file, *rows) for file in templates for rows in pages(file, MARKUP)]
    return {
        "docs": [(file, *rows) for file in docs for rows in pages(file, CODE)],
        "docstrings": [(file, *rows) for file, source in code for rows in explained(source)],
        "scripts": [(file, *rows) for file, source in scripts for rows in explained(source)],
        "messages": [(file, *rows) for file, source in code for rows in messages(source)] + shown,
    }


def words(text: str) -> int:
    return len(re.findall(r"[A-Za-z']+", text))


def rate(rows: list[tuple[Path, int, str]]) -> float:
    """Return the words of the dialect per 10,000 words."""
    hits = sum(len(DIALECT.findall(text)) for *_, text in rows)
    return 1e4 * hits / max(1, sum(words(text) for *_, text in rows))


def length(rows: list[tuple[Path, int, str]]) -> float:
    """Return the average number of words of a sentence."""
    parts = [words(s) for *_, text in rows for s in SENTENCE.split(text)]
    long = [n for n in parts if n > 2]
    return sum(long) / max(1, len(long))


if __name__ == "__main__":
    folder = (ROOT / sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT
    for kind, rows in texts().items():
        rows = [one for one in rows if folder in (one[0], *one[0].parents)]
        for file, line, text in rows:
            for hit in DIALECT.finditer(text) if len(sys.argv) > 1 else ():
                at = line + text[: hit.start()].count("\n")
                near = " ".join(text[max(0, hit.start() - 50) : hit.end() + 30].split())
                print(f"{file.relative_to(ROOT)}:{at}: {near}")
        print(f"{kind}: {rate(rows):.0f} per 10,000 words, {length(rows):.1f} words a sentence")
