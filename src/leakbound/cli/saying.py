"""What the command line says: models, files and logs of others name much of it."""

from __future__ import annotations

import click

from leakbound.text.plain import visible


def say(text: str, *, err: bool = False) -> None:
    """Print a line that steers no terminal, on standard output or, with `err`, standard error."""
    click.echo(visible(text), err=err)
