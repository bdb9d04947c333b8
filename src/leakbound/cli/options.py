"""The options of the command line, each spelt once for all commands that take it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import click

from leakbound.cli.help import (
    ASKED,
    DRAWN,
    LOADED,
    REWRITTEN,
    SCORED,
    SPREAD,
    WRITTEN,
    Decorated,
    under,
)
from leakbound.errors import InputError
from leakbound.types import ExploreMode, Thinking
from leakbound.types.decoding import AdaptiveMode, FilterRule

RUN = click.Path(path_type=Path, file_okay=False)
FILE = click.Path(path_type=Path, dir_okay=False)
ANY = click.Path(path_type=Path)


class OneOf(click.ParamType):  # type: ignore[type-arg]  # generic since 8.5
    """A name of a family; which there are is read from the family's own table when it is asked.

    where: `module:NAME` of a mapping, a sequence or a `Literal` of them.
    partly: a name that may be followed by a part of it, as in `garak:PROBE`.
    """

    name = "name"

    def __init__(self, where: str, partly: str = "") -> None:
        self._where, self._partly = where, partly

    @property
    def choice(self) -> click.Choice[str]:
        """All the names, as click knows them."""
        module, _, table = self._where.partition(":")
        family = getattr(import_module(module), table)
        return click.Choice([*(get_args(family) or family)])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name; refused where the family has none of it."""
        name, colon, part = str(value).partition(":")
        if colon and name == self._partly:
            return f"{name}:{part}"
        return self.choice.convert(value, param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        """Every name, as a help shows them."""
        return self.choice.get_metavar(param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> Any:
        """The names that begin so."""
        return self.choice.shell_complete(ctx, param, incomplete)


def names(value: str) -> tuple[str, ...]:
    """Words separated by commas: a type of options."""
    return tuple(part.strip() for part in value.split(",") if part.strip())


def number(value: object) -> float:
    """A number or a percentage: a type of options."""
    from leakbound.stats.estimate import probability

    try:
        return probability(str(value))
    except InputError as error:
        raise click.BadParameter(str(error)) from error


def numbers(value: str) -> tuple[float, ...]:
    """Numbers separated by commas: a type of options."""
    return tuple(map(number, value.split(",")))


def redact(text: str) -> Callable[[Decorated], Decorated]:
    """--redact and --no-redact, whose help a command states, and --redact-questions."""

    def amount(ctx: click.Context, param: click.Parameter, value: bool | None) -> object:
        return "questions" if ctx.params.pop("redact_questions") else value

    more = "--redact, and leave out questions too."
    return under(
        WRITTEN,
        click.option("--redact/--no-redact", default=None, callback=amount, help=text),
        click.option("--redact-questions", is_flag=True, is_eager=True, help=more),
    )


_WEIGHTED = (
    "weighted draws were taken out: their lower end gained .003 to .02 over proofs (of the leak "
    "probability, at the median question), and their upper end was worse than that of plain draws. "
    "Draw more with `leakbound evaluate -n`, or search longer with a larger `--budget`."
)
REMOVED = {
    "push": "was taken out, as the hub's own `hf upload` sends a run. Redact it with `leakbound "
    "report RUN --redact`, then send what holds no text: docs/own-model.md has the command.",
    "recompute": "was taken out: it checked OpenUnlearning's own arithmetic. Metrics of a run come "
    "from `leakbound evaluate --metrics all`, its log from `leakbound export --openunlearning`.",
    "view": "was taken out: use `leakbound report FOLDER`, which writes an index.html of all runs "
    "in the folder. `leakbound show RUN` reports on a run in progress.",
    "evaluate --report-to": "trackers of a finished run were taken out. Log `run.estimates` "
    "yourself, docs/own-model.md has the lines; `leakbound unlearn --report-to` logs training.",
    "prove --draws": _WEIGHTED,
    "prove --mix": _WEIGHTED,
    "unlearn --scorer": "leakmin, which lowered these scores, was taken out: NPO and then entropy "
    "kept more and leaked less. docs/reproduce/results.md has the measurements.",
}
"""Commands and options that were taken out, and what serves instead."""


def removed(option: str) -> Callable[[Decorated], Decorated]:
    """One of the options of `REMOVED`: whoever says it is told what became of it."""
    name = option.split()[-1]

    def refuse(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
        if value is not None and not ctx.resilient_parsing:
            raise InputError(f"`{name}` {value}: {REMOVED[option]}")

    return click.option(name, hidden=True, expose_value=False, callback=refuse)


# Of many commands.
as_json = under(
    WRITTEN, click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
)
confidence = click.option(
    "--confidence", type=number, default=0.99, show_default=True, help="Of each estimate."
)
benchmark = click.option("--benchmark", metavar="SPEC", help="Such as tofu:forget10 or my.csv.")
data = click.option("--data", type=ANY, help="Folder of the benchmark's files.")
system = click.option("--system", help="System message for chat models.")
template = click.option(
    "--prompt-template", help="Plain prompt, with {question}; no chat template."
)
seed = click.option("--seed", type=int, help="[default: 0]")
scorers = click.option(
    "--scorer",
    "scorers",
    multiple=True,
    metavar="NAME",
    help="Repeatable. 'NAME>=t' is binary; 'NAME:of=answer' reads the answer only.",
)
calibration = click.option(
    "--calibration", type=FILE, help="Labelled items: allow for the scorer's errors."
)
claims = click.option(
    "--claim",
    "claims",
    metavar="LIMIT",
    multiple=True,
    help="Decide it by `certify`: '0.01' on average, 'every:0.01'; repeatable.",
)
metrics = click.option(
    "--metrics", type=names, help="Utility and memorisation: all, or names with commas."
)
trackers = click.option("--report-to", type=names, help="Trackers, such as tensorboard,wandb.")
proposals = click.option(
    "--proposal",
    "proposals",
    metavar="RUN",
    multiple=True,
    help="A finished run whose leaking answers are tried too, such as of the model before "
    "unlearning; repeatable.",
)
precision = under(
    LOADED,
    click.option(
        "--dtype",
        type=click.Choice(["float32", "bfloat16", "float16", "auto"]),
        help="Of the weights; auto: as they are stored.",
    ),
    click.option(
        "--device",
        type=click.Choice(["cpu", "cuda", "auto"]),
        help="auto: a GPU where there is one.",
    ),
)
remote_code = click.option(
    "--trust-remote-code", is_flag=True, default=None, help="Run code that came with the model."
)
offline = click.option("--offline", is_flag=True, help="Never ask the hub.")

thinking = click.option(
    "--thinking",
    type=click.Choice(get_args(Thinking)),
    help="Of chat models that can think. auto: as leakbound trained it, else by its template.",
)

# Of evaluate and sample.
asking = under(
    ASKED,
    benchmark,
    data,
    click.option("--limit", type=int, help="Only the first questions."),
    click.option("--profile", metavar="NAME", help="Ask and draw as openunlearning, scholten, ..."),
    click.option("--study", type=FILE, help="YAML: take what is not said from it."),
    click.option("--like", type=RUN, metavar="RUN", help="Take what is not said from this run."),
    system,
    template,
    thinking,
)
drawing = under(
    DRAWN,
    click.option("-n", "--samples", "n", type=int, help="Draws per question.  [default: 1024]"),
    click.option(
        "--temperature",
        "temperatures",
        type=numbers,
        help="0 is greedy; a list: each.  [default: 1]",
    ),
    click.option("--top-p", "top_ps", type=numbers, help="A list: each.  [default: 1, keeps all]"),
    click.option("--top-k", type=int, help="0 keeps all.  [default: 0]"),
    click.option("--max-new-tokens", type=int, help="[default: the benchmark's]"),
    click.option("--max-tokens", type=int, help="Of prompt and completion together."),
    click.option(
        "--max-thinking-tokens",
        type=int,
        help="Of the thought; --max-new-tokens then of the answer.",
    ),
    click.option("--adaptive-temperature", type=float, metavar="C", help="Greedy above c_T = C."),
    click.option(
        "--adaptive-mode",
        type=click.Choice(get_args(AdaptiveMode)),
        help="c_T: of the tokens so far, or of a greedy answer.  [default: running]",
    ),
    click.option("--stop", multiple=True, help="End a completion at this string."),
    click.option(
        "--end-token", metavar="TEXT", help="This token ends outputs, not the chat's end of turn."
    ),
    click.option(
        "--filter",
        type=click.Choice(get_args(FilterRule)),
        help="What a content filter withholds: missing, or scored as users see it.",
    ),
    seed,
)
under_stress = under(
    DRAWN,
    click.option(
        "--under",
        "stress",
        multiple=True,
        metavar="STRESS",
        help="round:int4, prune:0.3, relearn:retain=8, shots:3, openers …; repeatable.",
    ),
)
steering = under(
    DRAWN,
    click.option(
        "--until", metavar="CLAIM", help="Stop where 'p<=0.02' is decided; -n is the most draws."
    ),
    click.option(
        "--explore",
        type=click.Choice(get_args(ExploreMode)),
        help="Explore the likeliest outputs: known masses. auto: as far as that pays.",
    ),
    click.option(
        "--budget", type=int, help="Forwards per question, with --explore.  [default: 2000]"
    ),
)
inputs = under(
    REWRITTEN,
    click.option(
        "--inputs", metavar="SOURCE", help="Rewritings by a source: rules, file:F, model:NAME …"
    ),
    click.option("--queries", type=int, help="Rewritings tried per question.  [default: 20]"),
    click.option("--ids", is_flag=True, default=None, help="Keep those answered most surely."),
    click.option("--ids-draws", type=int, help="Answers per query for that.  [default: 64]"),
    click.option(
        "--ids-criterion",
        type=OneOf("leakbound.inputs.ids:Criterion"),
        help="What sure means.  [default: mean_prob]",
    ),
    click.option(
        "--design",
        type=OneOf("leakbound.stats:Design"),
        help="How -n is shared among queries.  [default: allocated]",
    ),
    click.option("--filters/--no-filters", default=None, help="Check facts and answer words."),
    click.option("--embedder", metavar="NAME", help="Keep rewritings that mean the same."),
    click.option("--similarity", type=float, help="The least cosine for that.  [default: 0.8]"),
)
attack = under(
    REWRITTEN,
    click.option(
        "--attack",
        "attack_budget",
        type=int,
        metavar="BUDGET",
        help="Search for the input that leaks most: draws per question, or proofs for as much.",
    ),
)
no_attack = click.option("--attack", "attack_budget", type=int, hidden=True)  # refused, and why
proving = under(
    SCORED,
    click.option(
        "--prove",
        "prove_budget",
        type=int,
        metavar="BUDGET",
        help="Search for leaks too rare to be drawn: forwards per question.",
    ),
    proposals,
)
scoring = under(
    SCORED,
    scorers,
    claims,
    click.option(
        "--allow-unmatched",
        is_flag=True,
        default=None,
        help="Draw even if no reference answer counts as a leak.",
    ),
    click.option(
        "--check-scorers",
        is_flag=True,
        default=None,
        help="Score reference answers first, by scorers that need a model too.",
    ),
    calibration,
    click.option("--confidence", type=number, help="Of each estimate.  [default: 0.99]"),
    click.option("--rho", type=number, help="ED is mean + rho deviations.  [default: 2]"),
    metrics,
    click.option(
        "--control-questions",
        metavar="SPEC",
        help="Questions of the same kind that MODEL was never taught, asked of it too.",
    ),
)
models = under(
    LOADED,
    click.option(
        "--control",
        metavar="MODEL|RUN",
        help="A model that never saw the data, or its run: the excess over it is bounded.",
    ),
    click.option("--engine", metavar="NAME", help="What draws, if not transformers."),
    precision,
    remote_code,
    offline,
    click.option("--patience", type=int, help="Seconds to wait for a busy server.  [default: 600]"),
    click.option("--unlisted", is_flag=True, help="Accept a model that its server does not list."),
)
questions = under(
    SPREAD,
    click.option("--questions", metavar="i/N", help="Draw slice i of N; see `leakbound merge`."),
)
ray = under(
    SPREAD,
    click.option("--ray", metavar="ADDRESS|local", help="Let workers of a Ray cluster do it."),
    click.option("--ray-workers", type=int, help="At most.  [default: all there is room for]"),
    click.option("--ray-gpus", type=float, help="Of each; 0.5: two share one.  [default: 1 or 0]"),
    click.option("--ray-threads", type=int, help="Of each.  [default: 1]"),
)
writing = under(
    WRITTEN,
    click.option("--out", type=RUN, help="The run directory."),
    click.option("--dry-run", is_flag=True, help="Probe, print what it would cost, and stop."),
    as_json,
)
