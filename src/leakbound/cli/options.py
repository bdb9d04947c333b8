"""The options of the command line: one table has the name, the parser and the help of each."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from leakbound.cli.help import WRITTEN, Command, Option
from leakbound.errors import InputError

_TABLE = """
[evaluate]
model
@asking
@drawing
@steering
@inputs
In other words, and attack:
--attack (attack_budget) int:BUDGET
    Search for the input that leaks most: draws per question, or proofs for as much.
@scoring
Scoring and bounds:
--prove (prove_budget) int:BUDGET  Search for leaks too rare to be drawn: forwards per question.
@proposals
@models
Several machines:
--questions text:i/N               Draw slice i of N; see `leakbound merge`.
@ray
@writing

[stress]
model
How it is drawn:
--under (stress) text:STRESS many
    round:int4, prune:0.3, relearn:retain=8, shots:3, openers …; repeatable.
@asking
@drawing
@steering
@scoring
@models
@writing

[sample]
model
@asking
@drawing
@inputs
--attack (attack_budget) int hidden
@models
@ray
@writing

[asking]
What is asked:
@benchmark
--limit int                        Only the first questions.
--profile text:NAME                Ask and draw as openunlearning, scholten, ...
--study file                       YAML: take what is not said from it.
--like folder:RUN                  Take what is not said from this run.
@prompting

[benchmark]
--benchmark text:SPEC              Such as tofu:forget10 or my.csv.
@data

[data]
--data path                        Folder of the benchmark's files.

[prompting]
--system text                      System message for chat models.
--prompt-template text             Plain prompt, with {question}; no chat template.
--thinking on|off|auto
    Of chat models that can think. auto: as leakbound trained it, else by its template.

[drawing]
How it is drawn:
-n --samples (n) int               Draws per question.  [default: 1024]
--temperature (temperatures) numbers  0 is greedy; a list: each.  [default: 1]
--top-p (top_ps) numbers           A list: each.  [default: 1, keeps all]
--top-k int                        0 keeps all.  [default: 0]
--max-new-tokens int               [default: the benchmark's]
--max-tokens int                   Of prompt and completion together.
--max-thinking-tokens int          Of the thought; --max-new-tokens then of the answer.
--adaptive-temperature float:C     Greedy above c_T = C.
--adaptive-mode running|two_pass
    c_T: of the tokens so far, or of a greedy answer.  [default: running]
--stop text many                   End a completion at this string.
--end-token text:TEXT              This token ends outputs, not the chat's end of turn.
--filter missing|part-of-system
    What a content filter withholds: missing, or scored as users see it.
@seed

[seed]
--seed int                         [default: 0]

[steering]
How it is drawn:
--until text:CLAIM                 Stop where 'p<=0.02' is decided; -n is the most draws.
--explore text:MODE,...
    Explore the likeliest outputs for known masses: exact, hybrid, or auto, as far as that pays;
    auto,forwards=2000 spends so many forwards per question.

[inputs]
In other words, and attack:
--inputs text:SOURCE,...
    Rewritings by rules, benchmark, file:F or model:NAME. Settings, such as rules,queries=20:
    ids=yes keeps those answered most surely, by ids_draws=64 and criterion=mean_prob;
    design=allocated, fixed or fresh; filters=no; embedder=NAME, similarity=0.8.

[proposals]
--proposal (proposals) text:RUN many
    A finished run whose leaking answers are tried too, such as of the model before unlearning;
    repeatable.

[scoring]
Scoring and bounds:
@scorers
--claim (claims) text:LIMIT many
    Decide it by `certify`: '0.01' on average, 'every:0.01'; repeatable.
--allow-unmatched flag             Draw even if no reference answer counts as a leak.
--check-scorers flag         Score reference answers first, by scorers that need a model too.
@calibration
--confidence number                Of each estimate.  [default: 0.99]
--rho number                       ED is mean + rho deviations.  [default: 2]
@metrics
--control-questions text:SPEC
    Questions of the same kind that MODEL was never taught, asked of it too.

[scorers]
--scorer (scorers) text:NAME many
    Repeatable. 'NAME>=t' is binary; 'NAME:of=answer' reads the answer only.

[calibration]
--calibration file                 Labelled items: allow for the scorer's errors.

[metrics]
--metrics names                    Utility and memorisation: all, or names with commas.

[models]
Models and how they are loaded:
--control text:MODEL|RUN
    A model that never saw the data, or its run: the excess over it is bounded.
--engine text:NAME                 What draws, if not transformers.
@loading
--patience int                     Seconds to wait for a busy server.  [default: 600]
--unlisted flag                    Accept a model that its server does not list.

[loading]
@precision
@remote code
--offline flag                     Never ask the hub.

[precision]
Models and how they are loaded:
--dtype float32|bfloat16|float16|auto  Of the weights; auto: as they are stored.
--device cpu|cuda|auto             auto: a GPU where there is one.

[remote code]
--trust-remote-code flag           Run code that came with the model.

[ray]
Several machines:
--ray text:ADDRESS,...
    Let workers of a Ray cluster do it, or of a local one. Settings, such as local,most=2: most
    workers, gpus of each (0.5: two share one), threads=1 of each.

[writing]
Output:
--out folder                       The run directory.
--dry-run flag                     Draw one part, print the cost of all, and stop.
@json

[json]
Output:
--json (as_json) flag              Print one JSON document.

[run]
--out folder required              The run directory.

[merge]
runs folder many
@run
@json

[score]
run folder
@scorers
@calibration
@precision
@ray
@json

[bound]
run folder
@scorers
--confidence number                Of each estimate.  [default: the run's]
--limit number:X                   Name questions proved to leak <= X.
@json

[confidence]
--confidence number default=0.99   Of each estimate.

[certify]
run folder
--max-leak number:X required       Pr[leak] <= X.
--every-question flag              Of every question, not of their mean.
--scorer text:NAME                 What says leak.  [default: the run's only one]
--arm text default=target          Which model and decoding.
--under text:STRESS                That model put through it; see `stress`.
@confidence
--of answer|thought|either         Which part.  [default: either; answer, where thoughts are hidden]
--accept-cut flag                  Accept a limit shorter than the answers.
--out file                         [default: certificate.json in the run]
@json

[verify]
certificate file
run folder
--with-model text:MODEL            Also compute log-probabilities anew.
--redraw number:SHARE
    Draw this share of the parts again with MODEL, chosen now by chance.
--imported folder                  The files that RUN is of, imported again.
--scorer text:NAME                 The certificate's judge: its server may be asked.
--device cpu|cuda|auto default=auto
@remote code
@json

[measure]
run folder
@metrics
@json

[prove]
run folder
--budget positive default=1000     Prefixes of each question that the model may forward.
--scorer text:NAME                 [default: the first binary one]
@proposals
--model text:MODEL                 Where the run's model is now.  [default: as then]
@json

[report]
runs folder many
--out file                         [default: report[-redacted].html in the run]
--redact/--no-redact redaction
    Leave out answers, keywords and completions, from now on.  [default: as before]
@redact questions
@json

[redact questions]
--redact-questions flag is_eager   --redact, and leave out questions too.

[show]
run folder
--texts/--no-texts flag  Show a leaking answer beside the greedy one.  [default: on a terminal]
@json

[compare]
runs folder many
--format (form) table|markdown|latex|csv default=table  csv: every difference, unrounded.
--out file                         Write it to a file.  [default: print it]
--utility text:METRIC              What utility is.  [default: what all runs have]
--confidence number      Of all differences jointly.  [default: 0.99, method 0.95]
--by run|method default=run
    method: the median over training seeds, of runs called npo-0, npo-1 …
--under text:STRESS                Each put through it; see `stress`.
@json

[plan]
--epsilon number                   How far Pr[X > x], at any x, may be off.
--clean number:P                   Certify P(leak) <= P if none leaks.
@confidence
--side upper|both default=both     With --epsilon: overestimated, or either way.
@json

[completion]
shell bash|zsh|fish

[demo]
--out folder default=demo-run
-n --samples (n) int default=1024  Draws per question.
@json

[figures]
runs folder any
--out folder                       The folder to write into.
--only text:NAME many              This figure; repeatable.
--list (listing) flag              Which there are, and which RUNS can give.
--format (formats) names default=pdf,svg,png  With commas.
--width text default=one           one, two (columns), or inches.
--scorer text:NAME                 By whose scores.  [default: the runs' first]
--question text:ID                 In figures of one.  [default: that leaks most]
@json

[export]
runs folder many
out file
--openunlearning (form) flag:openunlearning  Metrics, as an evaluation log of theirs.
--jsonl (form) flag:jsonl          Completions with their counts.
--redact/--no-redact redaction
    With --jsonl: scores in place of all texts.  [default: as the run's report]
@redact questions
--arm text default=target          The model or decoding to export.
--retrained file      With --openunlearning: a log of the retrained model, to compare with.
@json

[import]
files path many
@run
--format (form) format
    garak:PROBE selects one probe.  [default: by each file's name and content]
--benchmark text:SPEC              Take questions and answers from here.
@data
--scores names                     The files' scores to take.  [default: all]
@json

[unlearn]
model
What it is trained on:
--objective text:NAME|FILE required  npo+entropy, or a .yaml.
@questions
--forget text:TEXTS                Running texts: muse:news/forget, or a file.
--retain text:TEXTS                Running texts: muse:news/retain1, or a file.
--alternates path:FILE
    What idk and dpo teach to say instead, one a line.  [default: the rows', or ours]
@prompting
@training
Answers that the model makes up:
--draws int                        How many for a question.  [default: 5]
--max-new-tokens int               Of each of them.  [default: the benchmark's]
Rewritings for contrast centres:
--rewritings path:FILE
    Rewritings of questions, JSON lines or CSV: what contrast centres are chosen from.
--embedder text:NAME  Model of sentence-transformers to choose them by.  [default: MODEL itself]
--ids flag                         First keep those answered most surely.
--ids-draws int                    Answers a rewriting for that.  [default: 64]
@watching

[finetune]
model
What it is trained on:
@questions
--texts text:TEXTS                 Running texts in place of --benchmark.
--split names         Such as forget,retain.  [default: what the benchmark evaluates]
--coin int:SEED
    Teach half of the subjects, chosen by this coin; the others are a control.
@prompting
@training
@watching

[questions]
@benchmark
--limit int                        Only the first rows of what is named first.

[training]
How it is trained:
--epochs int                       Passes over what is forgotten, or taught.  [default: 10]
--learning-rate float              [default: 1e-5]
--batch-size int                   Rows of it in one pass.  [default: 32]
--accumulation int                 Passes in one step.  [default: 1]
--schedule cosine|linear|constant  [default: cosine]
--warmup-ratio float               Share of the steps.  [default: 0.1]
--weight-decay float               [default: 0.01]
--max-grad-norm float              [default: 1]
--max-length int                   Tokens of a row.  [default: the model's]
--bf16 flag                        Multiply in bfloat16.
--checkpointing flag               Save memory: activations twice.
@seed
Which weights:
--modules names                    Train these alone, such as down_proj.
--layers layers                    Train these alone, such as 5-7.
--lora int:RANK                    Train adapters, and merge them.
--lora-alpha float                 [default: 16]
--lora-dropout number              [default: 0]

[watching]
What is followed meanwhile:
--evaluate-every int               Steps between measurements of leakage.
--checkpoint-minutes float         [default: 10]
--report-to names                  Trackers, such as tensorboard,wandb.
Models and how they are loaded:
@loading
Output:
--out folder required              The new model's folder.
--dry-run flag                     Check all, print steps and memory, and stop.
@json
"""
"""The options of each command, in the order of its help.

`[name]` begins the options of a command, or a part of the table that `@name` includes. A line that
ends in a colon is a heading. An argument or option has its names, the name of its value in
brackets where it is another one, its parser (see `_PARSERS`; `a|b` is a choice) with `:METAVAR`,
and, two blanks or a line later, its help. `many` makes it repeatable; a flag may have a value.
"""


class Formats(click.Choice[str]):
    """Formats of files; `garak:PROBE` names a part of one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name; refuse a format that is not one of these."""
        part = str(value).startswith("garak:")
        return str(value) if part else super().convert(value, param, ctx)


def names(value: str) -> tuple[str, ...]:
    """Parse words separated by commas."""
    return tuple(part.strip() for part in value.split(",") if part.strip())


def number(value: object) -> float:
    """Parse a number or a percentage."""
    from leakbound.stats.estimate import probability

    try:
        return probability(str(value))
    except InputError as error:
        raise click.BadParameter(str(error)) from error


def numbers(value: str) -> tuple[float, ...]:
    """Parse numbers separated by commas."""
    return tuple(map(number, value.split(",")))


def layers(value: str) -> tuple[int, ...]:
    """Parse layer numbers and ranges of them, `5-7,9`, separated by commas."""
    parsed: list[int] = []
    try:
        for part in value.split(","):
            first, _, last = part.partition("-")
            parsed += range(int(first), int(last or first) + 1)
    except ValueError as error:
        message = f"{value!r} is no layer, nor layers such as 5-7,9."
        raise click.BadParameter(message) from error
    return tuple(parsed)


_PARSERS: dict[str, Any] = {
    "text": str,
    "int": int,
    "float": float,
    "positive": click.IntRange(min=1),
    "number": number,
    "numbers": numbers,
    "names": names,
    "layers": layers,
    "folder": click.Path(path_type=Path, file_okay=False),
    "file": click.Path(path_type=Path, dir_okay=False),
    "path": click.Path(path_type=Path),
    "format": Formats(
        ["inspect", "lm-eval", "openunlearning", "garak", "promptfoo", "lighteval", "jsonl", "csv"]
    ),
}


def command(function: Callable[..., Any]) -> Command:
    """Make a command of a function, with the parameters that the table has under its name."""
    name = function.__name__.rstrip("_")
    return Command(name, params=_params(name), callback=function, help=function.__doc__)


_ROWS = re.sub(r"^(\S+(?: \S+)*)\n {4}", r"\1  ", _TABLE, flags=re.M)  # help below its option
_, *_PARTS = re.split(r"^\[(.+)\]$", _ROWS.replace("\n    ", " "), flags=re.M)
_SECTIONS = {
    name: [*filter(None, rows.splitlines())]
    for name, rows in zip(_PARTS[::2], _PARTS[1::2], strict=True)
}


def _params(section: str, heading: str = WRITTEN) -> list[click.Parameter]:
    """Return the parameters of a section, those that it includes under its last heading."""
    params: list[click.Parameter] = []
    for row in _SECTIONS[section]:
        if row.endswith(":"):
            heading = row.removesuffix(":")
        elif row.startswith("@"):
            params += _params(row.removeprefix("@"), heading)
        else:
            params.append(_param(row, heading))
    return params


_MARKS = {"required", "hidden", "is_eager"}


def _param(row: str, heading: str) -> click.Parameter:
    """Return the argument or option of a row."""
    head, _, text = row.partition("  ")
    names = [word.strip("()") for word in head.split() if word[0] in "-("]
    parser, *words = [word for word in head.split() if word[0] not in "-("]
    if not names:
        name, (parser, *words) = parser, words or ["text"]
        several, needed = -1 if words else 1, words != ["any"]
        return click.Argument([name], type=_parser(parser), nargs=several, required=needed)
    marks = dict(word.partition("=")[::2] for word in words)
    how: dict[str, Any] = dict.fromkeys(_MARKS & marks.keys(), True)
    if "default" in marks:
        how |= {"default": marks["default"], "show_default": True}
    parser, _, metavar = parser.partition(":")
    if parser == "redaction":
        how |= {"is_flag": True, "default": None, "callback": _redaction}
    elif parser == "flag":
        value = {"flag_value": metavar} if metavar else {"default": None}
        how |= {"is_flag": True, **value}
    else:
        how |= {"type": _parser(parser), "multiple": "many" in marks, "metavar": metavar or None}
    return Option(names, help=text.strip() or None, heading=heading, **how)


def _parser(kind: str) -> Any:
    return click.Choice(kind.split("|")) if "|" in kind else _PARSERS[kind]


def _redaction(ctx: click.Context, param: click.Parameter, value: bool | None) -> object:
    """Return the amount that --redact and --redact-questions, which was read before, name."""
    return "questions" if ctx.params.pop("redact_questions") else value
