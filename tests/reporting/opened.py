"""A page, its drawings and what its questions open to, read as a browser and its script do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

from leakbound.reporting.details import unpacked

VOID = {"meta", "input", "path", "circle", "rect", "polygon", "polyline"}


class Page(HTMLParser):
    """The elements of a page with their attributes, and the text of each kind of element."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: Counter[str] = Counter()
        self.body = ""
        self._open: list[str] = []
        self.unclosed: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if not self._open or self._open.pop() != tag:
            self.unclosed.append(tag)

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] not in ("script", "style"):
            self.body += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def of_class(svg: str, name: str) -> list[ElementTree.Element]:
    """The elements of a drawing with this class."""
    return [node for node in ElementTree.fromstring(svg).iter() if node.get("class") == name]


def details(html: str) -> dict[str, Any]:
    """All that the page holds packed."""
    return dict(unpacked(html))


def question(html: str, number: int) -> dict[str, Any]:
    """What a question opens to, numbered from 1."""
    found: dict[str, Any] = details(html)["questions"][number - 1]
    return found


def charts(html: str, number: int, kind: str) -> list[dict[str, Any]]:
    """The charts of one kind of a question, of every model and scorer."""
    models = question(html, number)["models"]
    return [c for said in models if said for c in said.get("charts", []) if c["kind"] == kind]


def shown(html: str) -> str:
    """Every text that is packed, a completion in one piece, a line each."""
    return "\n".join(_texts(details(html)["questions"]))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        if value and isinstance(value[0], list) and all(isinstance(v, str) for v in value[0]):
            yield "".join(value[0])
        for each in value:
            yield from _texts(each)
