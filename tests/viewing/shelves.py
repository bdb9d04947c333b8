"""What runs a test of the local page is made of, and asking it as a browser would, or another."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import unescape
from http.client import HTTPConnection
from urllib.parse import urlsplit

from canned import CannedEngine
from leaky import LEAKS, SECRET


def engine(leaks: float, name: str) -> CannedEngine:
    said = {q: {f"{SECRET} wrote it": leaks, "no idea": 1 - leaks} for q in LEAKS}
    return CannedEngine(said, name=name)


@dataclass(frozen=True)
class Got:
    """An answer: its status, headers and text."""

    status: int
    headers: dict[str, str]
    text: str

    @property
    def read(self) -> str:
        """What a person reads of a page: no markup, one space between words."""
        main = re.sub(r"<(script|style)\b.*?</\1>", "", self.text, flags=re.S)
        return " ".join(unescape(re.sub(r"<[^>]+>", " ", main)).split())

    def row(self, name: str) -> str:
        """What is said of a run in the list."""
        (found,) = (row for row in self.rows if f">{name}<" in row)
        return " ".join(unescape(re.sub(r"<[^>]+>", " ", found)).split())

    @property
    def rows(self) -> list[str]:
        """The rows of the list, as they stand there."""
        return re.findall(r"<tr id=\"run-.*?</tr>", self.text, flags=re.S)

    def link(self, name: str) -> str:
        """Where the name of a run leads."""
        (found,) = re.findall(rf'<a href="([^"]+)">{re.escape(name)}</a>', self.text)
        return str(found)

    def id(self, name: str) -> str:
        """By what a run is asked for."""
        (found,) = (row for row in self.rows if f">{name}<" in row)
        return re.findall(r'id="run-(\w+)"', found)[0]


def ask(
    url: str,
    path: str = "",
    *,
    method: str = "GET",
    host: str | None = None,
    token: str | None = None,
) -> Got:
    """Ask for a path behind the token of an address; `token` and `host` in place of the right."""
    place = urlsplit(url)
    assert place.hostname
    base = place.path if token is None else token
    connection = HTTPConnection(place.hostname, place.port or 80, timeout=30)
    try:
        connection.putrequest(method, f"{base}{path}", skip_host=True)
        if host != "":
            connection.putheader("Host", host or place.netloc)
        connection.endheaders()
        answer = connection.getresponse()
        return Got(answer.status, dict(answer.headers), answer.read().decode())
    finally:
        connection.close()
