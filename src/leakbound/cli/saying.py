"""What the command line says: models, files and logs of others name much of it."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TextIO

import click

from leakbound.text.shown import visible


def say(text: str, *, err: bool = False) -> None:
    """Print a line that steers no terminal, on standard output or, with `err`, standard error."""
    click.echo(visible(text), err=err)


def write(text: str) -> None:
    """Print lines on standard output, with what `bold` put into them."""
    click.echo(text, color=True)


def bold(text: str) -> str:
    """The text as a heading."""
    return click.style(text, bold=True) if styled(sys.stdout) else text


def on_terminal() -> bool:
    """True where standard output is read by a person as it comes."""
    return sys.stdout.isatty()


def styled(stream: TextIO) -> bool:
    """True where what is written may be bold.

    NO_COLOR, of any length but 0, forbids it; else FORCE_COLOR demands it; else a terminal that
    understands it is needed.
    """
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or steerable(stream)


def steerable(stream: TextIO) -> bool:
    """True for a terminal on which lines can be written over."""
    return stream.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


def columns_there() -> int | None:
    """How many columns there are: as COLUMNS says, else the terminal's; None without either."""
    return shutil.get_terminal_size(fallback=(0, 0)).columns or None
