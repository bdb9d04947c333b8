"""`leakbound view`: runs in a browser."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from leakbound.cli import options as opt
from leakbound.cli.console import print_json
from leakbound.cli.help import Command
from leakbound.cli.saying import say


@click.command(cls=Command)
@click.argument("folder", type=opt.RUN)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="[default: a free one]")
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@click.option("--redact", is_flag=True, help="Show no answer and no completion.")
@opt.as_json
def view(folder: Path, port: int, no_browser: bool, redact: bool, as_json: bool) -> None:
    """Show the runs in FOLDER, and below it, in a browser, until Ctrl-C.

    List them with their verdicts; sort, filter and search; open their reports; compare some; follow
    one that is being drawn, by bounds that hold however often they are looked at. Damaged runs are
    listed with what is wrong. The page is served to this machine alone, at an address that holds a
    token, and changes nothing in FOLDER.
    """
    from leakbound.viewing import view as verb

    def printed(address: str) -> None:
        print_json({"address": address})

    verb(
        folder,
        port=port,
        redact=True if redact else None,
        browser=not (no_browser or as_json) and sys.stdout.isatty(),
        ready=printed if as_json else say,
    )
