"""The command line. `--help` imports no large library; each command imports what it needs."""

from __future__ import annotations

import atexit
import gc
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from keyword import iskeyword
from typing import Any

import click

from leakbound import __version__
from leakbound.cli.help import write_commands, write_examples
from leakbound.cli.output import foreseen, say
from leakbound.errors import IncompleteError, LeakboundError

MAIN = {
    "evaluate": ("evaluate", "Sample a model's answers to a benchmark, and bound their leakage."),
    "unlearn": ("unlearn", "Train a model to forget the forget set of a benchmark."),
    "stress": ("evaluate", "Evaluate a model again after its weights were rounded, pruned, ..."),
    "compare": ("verbs", "Compare runs question by question, and as a leaderboard."),
    "certify": ("certify", "Decide a claim about a run, and write a certificate."),
    "verify": ("certify", "Check a certificate against its run."),
    "report": ("verbs", "Write the report of a run, or the index of a folder of runs."),
    "import": ("extras", "Make a run from samples that another tool drew."),
    "demo": ("extras", "Unlearn and evaluate a small built-in model, in minutes."),
    "show": ("verbs", "Print the verdict of a run, or its progress."),
    "score": ("verbs", "Score the completions of a run with additional scorers."),
    "bound": ("verbs", "Compute the bounds of a run at another confidence."),
    "more": ("verbs", "List the other commands."),
}
"""The commands that `leakbound --help` lists, each with its module and its line of help."""
OTHERS = {
    "finetune": ("unlearn", "Train a model on the answers of a benchmark, or on texts."),
    "prove": ("verbs", "Search a run's model for leaks that are too rare to be drawn."),
    "merge": ("evaluate", "Merge slices that several machines drew into one run."),
    "plan": ("verbs", "Print the number of draws that a guarantee needs."),
    "figures": ("extras", "Draw figures of your runs for a paper, and write the plotted data."),
    "export": ("extras", "Write metrics or completions of a run for other tools."),
}
"""Commands that `leakbound more` lists, in the same form."""
COMMANDS = MAIN | OTHERS

INSTEAD = {
    "help": "Run `leakbound --help`, or `leakbound COMMAND --help`.",
    "sample": "Run `leakbound evaluate MODEL --only sample`.",
    "measure": "Run `leakbound evaluate RUN --only metrics`.",
    "recompute": "Run `leakbound evaluate RUN --only metrics`; `leakbound export RUN "
    "--openunlearning` writes the log.",
    "view": "Run `leakbound report FOLDER`, which writes an index of all runs in the folder.",
    "push": "Redact the run with `leakbound report RUN --redact`, then run `hf upload`. "
    "The full command is in docs/own-model.md.",
}
"""Commands that do not exist, and what to run instead."""

EXAMPLES = (
    "leakbound demo",
    "leakbound evaluate my-model --benchmark tofu:forget10 --out runs/mine",
    "leakbound evaluate --help",
)


class _Commands(click.Group):
    """A group that imports a command when it is called; its help lists only the main commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = import_module(f"leakbound.cli.{COMMANDS[name][0]}")
        command: click.Command = getattr(module, f"{name}_" if iskeyword(name) else name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            from leakbound.registry import suggestion

            instead = INSTEAD.get(name) or suggestion(name, COMMANDS)
            raise click.UsageError(f"No such command {name!r}. {instead}", ctx)
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_examples(EXAMPLES, formatter)
        super().format_options(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_commands(MAIN, formatter)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="leakbound")
def group() -> None:
    """Measure how much a language model still leaks.

    leakbound draws many answers from the output distribution of a model, scores each answer in
    [0, 1], and bounds the leak probability. It also reports the greedy answer, which can hide a
    leak.

    Exit status: 0 success or claim passed, 1 unexpected error, 2 wrong use or bad input, 3
    incomplete (run the same command again), 4 claim refuted, 5 claim undecided, 6 verification
    failed.
    """


def main() -> None:
    """Run the command line; print an expected error as one message, not as a traceback."""
    atexit.register(gc.freeze)  # garbage collection at exit takes over a second
    gc.set_threshold(20_000, 10, 10)  # collect less often: there is little garbage
    with _interrupted_by_signals():
        status = run(lambda: group(standalone_mode=False))
    sys.exit(status)


@contextmanager
def _interrupted_by_signals() -> Iterator[None]:
    """Handle SIGTERM and SIGHUP like Ctrl-C, which removes temporary files and prints a message.

    An ignored signal, as under nohup, stays ignored.
    """
    signals = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    handled = [number for number in signals if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, signal.default_int_handler) for number in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run(command: Callable[[], Any]) -> int:
    """Call `command`; return its exit status (None is 0), or the status of its error."""
    try:
        status: int | None = command()
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as error:
        error.show()
        return 2
    except LeakboundError as error:
        say(f"leakbound: {error}", err=True)
        return error.exit_status
    except (KeyboardInterrupt, click.Abort):
        say("leakbound: stopped. Run the same command again to resume.", err=True)
        return 3
    except Exception as error:
        message = foreseen(error)
        if message is None:
            raise
        say(f"leakbound: {message}", err=True)
        return IncompleteError.exit_status
    return status or 0
