"""`leakbound push`: a run on the hub."""

from __future__ import annotations

from pathlib import Path

import click

from leakbound.cli import options as opt
from leakbound.cli.console import print_json
from leakbound.cli.help import Command
from leakbound.cli.saying import say


@click.command(cls=Command)
@click.argument("run", type=opt.RUN)
@click.option("--to", required=True, metavar="OWNER/NAME", help="The hub's repository.")
@click.option("--public", is_flag=True, help="For everybody to see.  [default: private]")
@click.option(
    "--redact/--no-redact",
    default=None,
    help="No answer and no completion.  [default: as `leakbound report` was told]",
)
@click.option("--dry-run", is_flag=True, help="List what would go, and send nothing.")
@opt.as_json
def push(
    run: Path, to: str, public: bool, redact: bool | None, dry_run: bool, as_json: bool
) -> None:
    """Put RUN on the hub: page, tables, certificate and a card, in a private repository.

    What goes is listed first. The token is that of $HF_TOKEN alone. With --redact only the page
    without texts, estimates, utility and certificate go.
    """
    from leakbound.publishing.pushing import prepare, send

    upload = prepare(run, to, redact=redact)
    if not as_json:
        for name, size in upload.sizes.items():
            say(f"{size:>12,}  {name}")
        texts = "without answers and completions" if upload.redacted else "with all texts"
        kind = "public" if public else "private"
        say(f"{len(upload.files):,} files, {texts}, to {to} ({kind})")
    if not dry_run:
        upload = send(upload, public=public)
    if as_json:
        print_json({"to": to, "files": upload.sizes, "url": upload.url})
    elif upload.url is not None:
        say(f"pushed: {upload.url}")
