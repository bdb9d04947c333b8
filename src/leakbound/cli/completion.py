"""`leakbound completion`: what makes a shell complete commands, options and names."""

from __future__ import annotations

import click

from leakbound.cli.help import Command


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script with which SHELL completes commands, options, names and files.

    It asks leakbound itself, so that it knows the benchmarks, scorers and so on of other packages
    too.
    """
    from click.shell_completion import get_completion_class

    root = click.get_current_context().find_root().command
    made = get_completion_class(shell)
    assert made is not None  # one of the choices
    click.echo(made(root, {}, "leakbound", "_LEAKBOUND_COMPLETE").source())
