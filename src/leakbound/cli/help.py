"""Show examples and common options for --help, and all options by heading for --help-all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import cleandoc
from textwrap import dedent
from typing import Any

import click

WRITTEN = "Output"  # the heading of the last group of options
MOST = 10  # a command with so few options shows all of them in --help
_ALL = "leakbound.help_all"  # the key in a context which records that --help-all was given
_WIDEST = 30  # columns for the name of an option; the help of a longer name is on the next line


class Option(click.Option):
    """An option with its heading in --help-all; --help shows only options that are `common`."""

    def __init__(
        self, *args: Any, heading: str = WRITTEN, common: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.heading, self.common = heading, common


class Command(click.Command):
    """A command whose --help shows examples and common options; --help-all shows all options.

    The examples are the lines below `Examples:` in the command's help.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.help, _, examples = cleandoc(self.help or "").partition("\nExamples:\n")
        self._examples = dedent(examples).splitlines()
        shown = [p for p in self.params if isinstance(p, click.Option)]
        self.long = len(shown) > MOST
        self._help_all = [_help_all(len(shown))] if self.long else []

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return all parameters; the options that show help are last."""
        return [*super().get_params(ctx), *self._help_all]

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; raise RuntimeError if a plug-in ends the program."""
        try:
            return super().invoke(ctx)
        except SystemExit as error:
            raise RuntimeError(f"a plug-in ended the program with status {error.code!r}") from error

    def help_all(self, ctx: click.Context) -> str:
        """Return the help with all options."""
        ctx.meta[_ALL] = True
        return self.get_help(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write examples and options."""
        write_examples(self._examples, formatter)
        headed = ctx.meta.get(_ALL, False) and self.long
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        if self.long and not headed:
            options = [one for one in options if getattr(one, "common", one in self._help_all)]
        pairs = [(option, option.get_help_record(ctx)) for option in options]
        rows = [(option, record) for option, record in pairs if record is not None]
        wide = min(_WIDEST, max(len(record[0]) for _, record in rows))
        sections: dict[str, list[tuple[str, str]]] = {}
        for option, (names, text) in rows:
            heading = getattr(option, "heading", WRITTEN) if headed else "Options"
            sections.setdefault(heading, []).append((names.ljust(wide), text))
        last = sections.pop(WRITTEN, None)
        for heading, records in [*sections.items(), *([(WRITTEN, last)] if last else [])]:
            with formatter.section(heading):
                formatter.write_dl(records)


def _help_all(options: int) -> click.Option:
    """Return the option --help-all of a command with this number of options."""

    def show(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        if value and not ctx.resilient_parsing and isinstance(ctx.command, Command):
            click.echo(ctx.command.help_all(ctx))
            ctx.exit()

    return click.Option(
        ["--help-all"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show,
        help=f"Show all {options} options and exit.",
    )


def write_commands(commands: Mapping[str, tuple[str, str]], formatter: click.HelpFormatter) -> None:
    """Write the name of each command with its line of help."""
    with formatter.section("Commands"):
        formatter.write_dl([(name, line) for name, (_, line) in commands.items()])


def write_examples(lines: Sequence[str], formatter: click.HelpFormatter) -> None:
    """Write the example command lines, without wrapping them."""
    if not lines:
        return
    with formatter.section("Examples"):
        for line in lines:
            formatter.write(f"{'':>{formatter.current_indent}}{line}\n")
