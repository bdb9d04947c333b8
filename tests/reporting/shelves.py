"""A folder of runs, and its index as read by a person or a browser."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import unescape
from pathlib import Path

from canned import CannedEngine
from leakbound.evaluation import evaluate
from leakbound.reporting.index import FolderIndex
from report_runs import saying, who


def engine(leaks: float, name: str) -> CannedEngine:
    return saying(dict.fromkeys("ab", leaks), name=name)


def fill(folder: Path, n: int = 256, **leaks: float) -> Path:
    """Make a complete run for each name, in this order; `__` in a name is a subfolder."""
    for name, chance in leaks.items():
        out = folder.joinpath(*name.split("__"))
        evaluate(engine(chance, name), who(*"ab"), out=out, n=n)
    return folder


@dataclass(frozen=True)
class ReadIndex:
    """A written index, as text."""

    index: FolderIndex

    @property
    def html(self) -> str:
        return self.index.path.read_text(encoding="utf-8")

    @property
    def rows(self) -> list[str]:
        return re.findall(r"<tr data-state=.*?</tr>", self.html, flags=re.S)

    def row(self, name: str) -> str:
        """Return the text of a run's row, with single spaces between words."""
        (row,) = (row for row in self.rows if re.search(rf">{re.escape(name)}[ <]", row))
        return text_of(row)

    def links(self) -> dict[str, str]:
        """Return the address of each run's page, by the name of the run."""
        pairs = re.findall(r'<th scope="row"[^>]*><a href="([^"]+)">([^<]+)</a>', self.html)
        return {unescape(name): address for address, name in pairs}


def text_of(html: str) -> str:
    """Return the text of a page without style and script, with single spaces between words."""
    shown = re.sub(r"<(script|style)\b.*?</\1>", "", html, flags=re.S)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", shown)).replace("\xa0", " ").split())
