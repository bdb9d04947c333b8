"""Hooks of MkDocs: resolve links out of docs/, and generate pages during the build."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from leakbound.cli import COMMANDS, group
from leakbound.cli.help import Command

_OUTSIDE = r"(?:examples|tests|bench|experiments|[A-Z]+\.md)[^)]*"
_OUTWARD = re.compile(rf"\[([^\]]+)\]\((?:\.\./)+({_OUTSIDE})\)")
_COMMANDS = "<!-- commands: made when the site is built -->"
_STORY = "<!-- story: made when the site is built -->"
_SOURCE = '<details class="mkdocstrings-source"'
_HERE = Path(__file__).parent
_EXECUTED = _HERE.parent / "build" / "story.ipynb"  # see `make docs`


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Link a file outside docs/ if the repository has an address; otherwise print its name."""
    del page
    if _COMMANDS in markdown:
        markdown = markdown.replace(_COMMANDS, "\n".join(_helps()))
    if _STORY in markdown:
        markdown = markdown.replace(_STORY, "\n".join(_story()))
    if config.repo_url:
        return _OUTWARD.sub(rf"[\1]({config.repo_url}/tree/main/\2)", markdown)
    return _OUTWARD.sub(r"\1", markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Exclude source code from the search index."""
    return html.replace(_SOURCE, f"{_SOURCE} data-search-exclude")


def _helps() -> Iterator[str]:
    """Yield a section with the full help of each command."""
    above = click.Context(group, info_name="leakbound")
    for name, (_, line) in COMMANDS.items():
        command = group.get_command(above, name)
        assert isinstance(command, Command)
        text = command.help_all(click.Context(command, info_name=name, parent=above))
        yield f"## {name}\n\n{line}\n\n```text\n{text}\n```\n"


def _story() -> Iterator[str]:
    """Yield the cells of the notebook, with their outputs if it was executed."""
    file = _EXECUTED if _EXECUTED.exists() else _HERE / "story.ipynb"
    for cell in json.loads(file.read_text(encoding="utf-8"))["cells"][1:]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            yield source + "\n"
        else:
            yield f"```python\n{source}\n```\n"
            yield from map(_shown, cell["outputs"])


def _shown(output: Mapping[str, Any]) -> str:
    """Return a cell's standard output or image, without warnings and progress bars."""
    data = output.get("data", {})
    if "image/svg+xml" in data:
        encoded = base64.b64encode("".join(data["image/svg+xml"]).encode()).decode()
        return f'<img alt="output of the cell" src="data:image/svg+xml;base64,{encoded}">\n'
    plain = output.get("text", "") if output.get("name") == "stdout" else data.get("text/plain", "")
    text = "".join(plain).rstrip()
    return f"```text\n{text}\n```\n" if text else ""
