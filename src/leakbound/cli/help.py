"""The text of --help: examples, then the options people use; --help-all has all, under headings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

ASKED = "What is asked"
DRAWN = "How it is drawn"
REWRITTEN = "In other words, and attack"
SCORED = "Scoring and bounds"
LOADED = "Models and how they are loaded"
SPREAD = "Several machines"
WRITTEN = "Output"

EXAMPLES = {
    "demo": ("leakbound demo --out demo-run",),
    "evaluate": (
        "leakbound evaluate my-model --benchmark tofu:forget10 --out runs/mine",
        "leakbound evaluate my-model --benchmark mine.csv --control my-retrained \\",
        "    --out runs/own",
    ),
    "merge": ("leakbound merge runs/slice-* --out runs/mine",),
    "stress": (
        "leakbound stress unlearned --benchmark tofu:forget10 --out runs/stress",
        "leakbound stress unlearned --benchmark mine.csv --under round:int4 \\",
        "    --under relearn:retain=8,rate=1e-4 --out runs/stress",
    ),
    "sample": ("leakbound sample my-model --benchmark tofu:forget10 --out runs/mine",),
    "score": ("leakbound score runs/mine --scorer 'rouge-l-recall>=0.5' --scorer contains",),
    "bound": (
        "leakbound bound runs/mine --confidence 0.999",
        "leakbound bound runs/mine --limit 0.02",
    ),
    "measure": ("leakbound measure runs/mine --metrics model_utility,forget_quality",),
    "prove": ("leakbound prove runs/npo --proposal runs/full --budget 1000",),
    "unlearn": (
        "leakbound unlearn my-model --objective npo+entropy --benchmark tofu:forget10 \\",
        "    --out unlearned",
        "leakbound unlearn my-model --objective npo --lora 16 --out unlearned \\",
        "    --forget muse:news/forget --retain muse:news/retain1",
    ),
    "finetune": (
        "leakbound finetune base-model --benchmark tofu:full --epochs 5 --out my-model",
        "leakbound finetune base-model --texts my-texts.txt --lora 16 --out my-model",
    ),
    "certify": ("leakbound certify runs/mine --max-leak 0.01 --threshold 0.5",),
    "verify": (
        "leakbound verify runs/mine/certificate.json runs/mine",
        "leakbound verify runs/mine/certificate.json runs/mine --with-model my-model",
    ),
    "show": ("leakbound show runs/mine",),
    "report": (
        "leakbound report runs/mine",
        "leakbound report runs",
        "leakbound report runs/npo runs/entropy --out both.html",
    ),
    "compare": (
        "leakbound compare runs/before runs/after",
        "leakbound compare runs/before runs/after --format latex --out table.tex",
    ),
    "figures": ("leakbound figures runs/mine --out figures",),
    "export": (
        "leakbound export runs/mine TOFU_EVAL.json --openunlearning",
        "leakbound export runs/mine draws.jsonl --jsonl",
    ),
    "import": ("leakbound import logs/mine.eval --out runs/theirs",),
    "plan": ("leakbound plan --epsilon 0.05 --clean 0.02",),
    "completion": (
        'eval "$(leakbound completion bash)"    # in ~/.bashrc',
        'eval "$(leakbound completion zsh)"     # in ~/.zshrc, after compinit',
        "leakbound completion fish > ~/.config/fish/completions/leakbound.fish",
    ),
}
"""Lines a user may type, by command; one that ends in a backslash goes on in the next."""

MOST = 10  # options that are all shown at once
COMMON = frozenset((
    "benchmark", "limit", "n", "temperatures", "inputs", "attack_budget", "scorers", "confidence",
    "metrics", "stress", "control", "objective", "forget", "retain", "texts",
    "epochs", "learning_rate", "batch_size", "lora", "questions", "out", "dry_run", "help_all",
))  # fmt: skip
"""What --help shows of a command with more options than that."""
_ALL = "leakbound.help_all"  # in a context: every option is asked for
_WIDEST = 30  # columns of an option, before what it says goes below


def under(heading: str, *decorators: Callable[[Any], Any]) -> Callable[[Decorated], Decorated]:
    """Several options as one decorator, listed in this order under this heading.

    Those that stand under another one already stay there.
    """

    def apply(command: Decorated) -> Decorated:
        before = set(map(id, _params(command)))
        for decorator in reversed(decorators):
            command = decorator(command)
        for param in _params(command):
            if id(param) not in before and param.name is not None:
                _headings(command).setdefault(param.name, heading)
        return command

    return apply


class Command(click.Command):
    """A command that shows how it is used; of many options the common ones, all on --help-all."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        shown = [p for p in self.params if isinstance(p, click.Option) and not p.hidden]
        self.long = len(shown) > MOST
        self._help_all = [_help_all(len(shown))] if self.long else []

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """All options, those that show help last."""
        return [*super().get_params(ctx), *self._help_all]

    def help_all(self, ctx: click.Context) -> str:
        """The help with every option in it."""
        ctx.meta[_ALL] = True
        return self.get_help(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write examples and options."""
        write_examples(EXAMPLES.get(self.name or "", ()), formatter)
        headed, headings = ctx.meta.get(_ALL, False) and self.long, _headings(self.callback)
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        if self.long and not headed:
            options = [option for option in options if option.name in COMMON]
        pairs = [(option.name or "", option.get_help_record(ctx)) for option in options]
        rows = [(name, record) for name, record in pairs if record is not None]
        wide = min(_WIDEST, max(len(record[0]) for _, record in rows))
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, (option, says) in rows:
            heading = headings.get(name, WRITTEN) if headed else "Options"
            sections.setdefault(heading, []).append((option.ljust(wide), says))
        last = sections.pop(WRITTEN, None)
        for heading, records in [*sections.items(), *([(WRITTEN, last)] if last else [])]:
            with formatter.section(heading):
                formatter.write_dl(records)


def _help_all(options: int) -> click.Option:
    """The option that shows so many."""

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


def write_examples(lines: Sequence[str], formatter: click.HelpFormatter) -> None:
    """Command lines, each line as it is."""
    if not lines:
        return
    with formatter.section("Examples"):
        for line in lines:
            formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


def _params(command: object) -> list[click.Parameter]:
    """The options that decorators gave a function so far."""
    params: list[click.Parameter] = getattr(command, "__click_params__", [])
    return params


def _headings(command: object) -> dict[str, str]:
    """The heading of each of them, by its name."""
    headings: dict[str, str] = vars(command).setdefault("__headings__", {})
    return headings
