"""The command line. `--help` imports nothing heavy: every command loads what it needs itself."""

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
from leakbound.cli.help import write_examples
from leakbound.cli.saying import foreseen, say
from leakbound.errors import IncompleteError, InputError, LeakboundError

# name: (module, one line for --help); the module has a click command of that name
COMMANDS = {
    "demo": ("outbuildings", "The whole story on a built-in model and data set, in minutes."),
    "evaluate": ("evaluate", "Sample, score and bound a model on a benchmark; write a report."),
    "merge": ("evaluate", "Merge the slices of a study that jobs of an array drew."),
    "stress": ("evaluate", "Evaluate as it is, and rounded, trained on or asked otherwise."),
    "sample": ("evaluate", "Only the first step of evaluate: draw completions."),
    "score": ("verbs", "Score the completions of a run."),
    "bound": ("verbs", "Bound the scores of a run."),
    "measure": ("verbs", "Utility and memorisation of a run, from what was read."),
    "prove": ("verbs", "Leaks of a run's model that are too rare to be drawn."),
    "unlearn": ("unlearn", "Make a model forget a benchmark's forget set."),
    "finetune": ("unlearn", "Teach a model a benchmark's answers, or texts."),
    "certify": ("certify", "Decide whether a run leaks at most so much."),
    "verify": ("certify", "Check a certificate against its run."),
    "show": ("verbs", "Print the verdict on a run, or how far it is."),
    "report": ("verbs", "Write the report of a run, or the index of a folder of runs."),
    "compare": ("verbs", "Runs beside each other, question by question; a leaderboard."),
    "figures": ("outbuildings", "Draw the papers' figures of runs, with their data."),
    "export": ("outbuildings", "Write the metrics or completions of a run for other tools."),
    "import": ("outbuildings", "Make a run of samples that another tool drew."),
    "plan": ("verbs", "How many samples a guarantee needs."),
    "completion": ("verbs", "Print what makes a shell complete commands and options."),
}

_WEIGHTED = (
    "weighted draws were removed: their lower end gained .003 to .02 over proofs (of the leak "
    "probability, at the median question), and their upper end was worse than that of plain draws. "
    "Draw more with `leakbound evaluate -n`, or search longer with a larger `--budget`."
)
REMOVED = {
    "push": "use the hub's own `hf upload`. Redact the run with `leakbound report RUN --redact`, "
    "then send what holds no text: docs/own-model.md has the command.",
    "recompute": "metrics of a run come from `leakbound evaluate --metrics all`, its log from "
    "`leakbound export --openunlearning`.",
    "view": "use `leakbound report FOLDER`, which writes an index.html of all runs in the folder. "
    "`leakbound show RUN` reports on a run in progress.",
    "evaluate --report-to": "log `run.estimates` yourself, docs/own-model.md has the lines. "
    "`leakbound unlearn --report-to` logs training.",
    "prove --draws": _WEIGHTED,
    "prove --mix": _WEIGHTED,
    "unlearn --scorer": "leakmin, which lowered these scores, was removed: NPO and then entropy "
    "kept more and leaked less. docs/reproduce/results.md has the measurements.",
}
"""Commands and options that were removed, and what to use instead."""

EXAMPLES = (
    "leakbound demo",
    "leakbound evaluate my-model --benchmark tofu:forget10 --out runs/mine",
    "leakbound evaluate --help",
)


class _Commands(click.Group):
    """Commands that are imported when they are called."""

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

            if name in REMOVED:
                raise InputError(f"`leakbound {name}` was removed: {REMOVED[name]}")
            raise click.UsageError(f"No such command {name!r}. {suggestion(name, COMMANDS)}", ctx)
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_examples(EXAMPLES, formatter)
        super().format_options(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="leakbound")
def group() -> None:
    """How much does a language model still leak?

    leakbound samples a model's whole output distribution, scores every completion in [0, 1] and
    reports bounds that hold, beside the greedy answer that hides the leak.

    Exit status: 0 done or pass, 1 unexpected error, 2 wrong use or bad input, 3 incomplete (run
    the same command again), 4 claim refuted, 5 claim neither met nor refuted, 6 verification
    failed.
    """


def main() -> None:
    """Entry point: errors of ours are one message and an exit status, not a traceback."""
    atexit.register(gc.freeze)  # a process that ends need not look for garbage: over a second
    gc.set_threshold(20_000, 10, 10)  # looks for garbage a thirtieth as often: it is rare
    with _ending_is_stopping():
        status = run(lambda: group(standalone_mode=False))
    sys.exit(status)


@contextmanager
def _ending_is_stopping() -> Iterator[None]:
    """Let a signal to end be what Ctrl-C is, so that temporary files go and it is said.

    One that is ignored, as under nohup, stays so.
    """
    signals = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    heeded = [number for number in signals if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, signal.default_int_handler) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run(command: Callable[[], Any]) -> int:
    """Call `command`; the exit status it returned (None is 0), or the one its error deserves."""
    try:
        status: int | None = command()
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.NoSuchOption as error:
        name = f"{error.ctx.info_name} {error.option_name}" if error.ctx else ""
        if name in REMOVED:
            say(f"leakbound: `{error.option_name}` was removed: {REMOVED[name]}", err=True)
        else:
            error.show()
        return 2
    except click.ClickException as error:
        error.show()
        return 2
    except LeakboundError as error:
        say(f"leakbound: {error}", err=True)
        return error.exit_status
    except (KeyboardInterrupt, click.Abort):
        say("leakbound: stopped. Run the same command again to go on from here.", err=True)
        return 3
    except Exception as error:
        message = foreseen(error)
        if message is None:
            raise
        say(f"leakbound: {message}", err=True)
        return IncompleteError.exit_status
    return status or 0
