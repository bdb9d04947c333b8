"""A page, its charts and the details of its questions, read like a browser and its script."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
from collections import Counter
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from leakbound.presenting.table import Table
from leakbound.presenting.view import View
from leakbound.reporting.details import unpacked
from leakbound.reporting.page import render
from report_runs import browser_lacks

VOID = {"meta", "input"}


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

    def require_well_formed(self) -> None:
        """Every element is closed, every id is unique, and every internal link has a target."""
        assert self.unclosed == []
        ids = Counter(attributes["id"] for _, attributes in self.elements if attributes.get("id"))
        assert max(ids.values()) == 1
        links = [str(a["href"]) for a in self.named("a") + self.named("use")]
        assert {link[1:] for link in links if link.startswith("#")} <= set(ids)

    def named(self, tag: str, kind: str = "") -> list[dict[str, str | None]]:
        """Return the attributes of the elements with this name and, if named, this class."""
        return [
            attributes
            for name, attributes in self.elements
            if name == tag and (not kind or kind in (attributes.get("class") or "").split())
        ]


def rendered(view: View) -> str:
    """A page with its charts, and with a title and a table that are not from the runs."""
    table = Table.plain("Training & cost", ("model", "minutes"), [("<full>", "3")], "On a laptop.")
    return render(view, title="Leaks & <bounds>", more=[table])


def details(html: str) -> Page:
    return Page(unpacked(html))


def question(html: str, number: int) -> Page:
    """Return the details of a question, numbered from 1."""
    return Page(unpacked(html).split('<div class="detail">')[number].rsplit("</div>", 1)[0])


def charts(html: str) -> dict[str, list[dict[str, str]]]:
    """Return the data of every chart of the page, by its caption."""
    return {
        (link["download"] or "").removesuffix(".csv"): _rows(link["href"] or "")
        for link in Page(html).named("a", "save")
    }


def _rows(address: str) -> list[dict[str, str]]:
    kind, _, text = address.partition(",")
    assert kind == "data:text/csv;charset=utf-8"
    return list(csv.DictReader(StringIO(unquote(text))))


def browsed(script: str, *targets: Path) -> dict[str, Any]:
    """Return the results of a script of this folder in a real browser."""
    if lacking := browser_lacks():
        pytest.skip(f"needs {lacking}")
    command = ["node", Path(__file__).with_name(script), shutil.which("chromium"), *targets]
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    got: dict[str, Any] = json.loads(done.stdout)
    return got
