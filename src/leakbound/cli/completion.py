"""`leakbound completion`: the script by which a shell completes commands, options and files."""

from __future__ import annotations

import click

from leakbound.cli.help import Command


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print click's script, with which SHELL completes commands, options, choices and files."""
    from click.shell_completion import BashComplete, FishComplete, ZshComplete

    complete = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}[shell]
    root = click.get_current_context().find_root().command
    click.echo(complete(root, {}, "leakbound", "_LEAKBOUND_COMPLETE").source())
