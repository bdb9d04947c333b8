"""What the site needs beyond MkDocs: links out of docs/, and pages made when it is built."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import click

from leakbound.cli import COMMANDS, group

_OUTWARD = re.compile(r"\[([^\]]+)\]\((?:\.\./)+((?:examples|tests|bench|experiments)[^)]*)\)")
_COMMANDS = "<!-- commands: made when the site is built -->"


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """A file of the repository is linked where the site knows it, and else named."""
    del page
    if _COMMANDS in markdown:
        markdown = markdown.replace(_COMMANDS, "\n".join(_helps()))
    if config.repo_url:
        return _OUTWARD.sub(rf"[\1]({config.repo_url}/tree/main/\2)", markdown)
    return _OUTWARD.sub(r"\1", markdown)


def _helps() -> Iterator[str]:
    """The help of every command under a heading of its own."""
    above = click.Context(group, info_name="leakbound")
    for name, (_, line) in COMMANDS.items():
        command = group.get_command(above, name)
        assert command is not None
        text = command.get_help(click.Context(command, info_name=name, parent=above))
        yield f"## {name}\n\n{line}\n\n```text\n{text}\n```\n"
