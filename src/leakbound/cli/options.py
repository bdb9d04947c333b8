"""The options of the command line: one table has each option's name, parser and help."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from leakbound.cli.help import WRITTEN, Command, Option
from leakbound.cli.parsed import Parsed
from leakbound.errors import InputError

_TABLE = """
[evaluate]
model
@prompts
@drawing
Rewritings and attack:
--inputs text:SOURCE,...
    Also sample rewritings of the questions, from SOURCE: rules, benchmark, file:F or model:NAME.
    Append settings to SOURCE, as in rules,queries=20. ids=yes keeps the rewritings that the
    model answers most confidently (ids_draws=64, criterion=mean_prob). Other settings:
    design=allocated, fixed or fresh; filters=no; embedder=NAME, similarity=0.8.
--attack (attack_budget) text:BUDGET
    Search for the input that leaks most; BUDGET is in draws per question.
@scoring
Scoring and bounds:
--prove (prove_budget) text:BUDGET,...
    Search for leaks that are too rare to be drawn; BUDGET is in forward passes per question.
    250,proposals=RUN,RUN also tries leaking answers of finished runs, such as a run of the model
    before unlearning.
@models
Several machines:
--questions text:i/N               Draw slice i of N; see `leakbound merge`.
@ray
@writing
Output:
--only sample|metrics common
    Do only this step. sample: draw completions. metrics: compute metrics of the finished run MODEL.

[stress]
model
Stress:
--under (stress) text:STRESS many common
    Stress to apply, such as round:int4, prune:0.3, relearn:retain=8, shots:3, openers; repeatable.
@prompts
@drawing
@scoring
@models
@writing

[prompts]
Questions and prompts:
@benchmark
--limit int common                 Use only the first N questions.
--profile text:NAME                Settings of a paper or tool: openunlearning, scholten, ...
--study file                       YAML file with defaults for all other options.
--like folder:RUN                  Use the settings of this run as defaults.
@prompting

[benchmark]
--benchmark text:SPEC common       Name or file, such as tofu:forget10 or my.csv.
@data

[data]
--data path                        Folder of the benchmark's files.

[prompting]
--system text                      System message for chat models.
--prompt-template text             Plain prompt with {question}, in place of the chat template.
--thinking on|off|auto
    Whether a chat model thinks. auto: as trained by leakbound, or the chat template's default.

[drawing]
Sampling:
-n --samples (n) int common        Draws per question.  [default: 1024]
--temperature (temperatures) numbers common  A number or a list; 0 is greedy.  [default: 1]
--top-p (top_ps) numbers           A number or a list.  [default: 1, no truncation]
--top-k int                        Draw from the k likeliest tokens; 0: all.  [default: 0]
--max-new-tokens int               Token limit of a completion.  [default: the benchmark's]
--max-tokens int                   Token limit of prompt and completion together.
--max-thinking-tokens int          Token limit of the thought; --max-new-tokens limits the answer.
--adaptive-temperature text:C,...
    Decode greedily while the model's confidence c_T in the tokens so far exceeds C.
    C,mode=two_pass computes c_T from the complete greedy answer.
--stop text many                   End a completion at this string; repeatable.
--end-token text:TEXT              Token that ends outputs, in place of the chat's end of turn.
--filter missing|part-of-system
    Treat outputs that a content filter withholds as missing, or score the text that users see.
@seed
--until text:CLAIM
    Stop sampling a question once a claim such as 'p<=0.02' is decided; -n is then the maximum.
--explore text:MODE,...
    Compute probabilities of the likeliest outputs. MODE: exact, hybrid (also draws from the other
    outputs), or auto (chooses per question). auto,forwards=2000: forward passes per question.

[seed]
--seed int                         Random seed.  [default: 0]

[scoring]
Scoring and bounds:
@scorers
--claim (claims) text:LIMIT many
    Record a claim for `certify`: '0.01' for the mean, 'every:0.01' for each question; repeatable.
--allow-unmatched flag             Draw even if no reference answer counts as a leak.
--check-scorers flag
    Before drawing, also test scorers that use models on the reference answers.
@calibration
--confidence number common         Confidence of each estimate.  [default: 0.99]
--rho number                       The ED score is mean + rho standard deviations.  [default: 2]
@metrics
--control-questions text:SPEC      Similar questions, never taught to MODEL, for comparison.

[scorers]
--scorer (scorers) text:NAME many common
    Scorer; repeatable. 'NAME>=t' is binary; 'NAME:of=answer' ignores the thought.

[calibration]
--calibration file                 Labelled outputs, to correct for errors of the scorer.

[metrics]
--metrics names common             Utility and memorisation: all, or a list of names.

[models]
Models:
--control text:MODEL|RUN common
    Model that never saw the forget set, or its run. Adds bounds on the excess over this control.
--engine text:NAME                 Engine that runs the model.  [default: transformers]
@loading
--patience int                     Seconds to wait for a busy server.  [default: 600]
--unlisted flag                    Accept a model that its server does not list.

[loading]
@precision
@remote code
--offline flag                     Do not access the model hub.

[precision]
Models:
--dtype float32|bfloat16|float16|auto  Type of the weights; auto: as stored.
--device cpu|cuda|auto             auto: a GPU if there is one.

[remote code]
--trust-remote-code flag           Run code that came with the model.

[ray]
Several machines:
--ray text:ADDRESS,...
    Use workers of a Ray cluster. ADDRESS `local` starts a cluster on this machine. Settings, as in
    local,most=2: most (number of workers), gpus and threads (per worker; gpus=0.5 shares a GPU).

[writing]
Output:
--out folder common                The run directory.
--dry-run flag common              Draw a small part, estimate the cost of the study, and stop.
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
--confidence number                Confidence of each estimate.  [default: the run's]
--limit number:X                   List the questions whose leakage is proved to be <= X.
@json

[confidence]
--confidence number default=0.99   Confidence of each estimate.

[certify]
run folder
--max-leak number:X required       Claim that Pr[leak] <= X.
--every-question flag              Claim this for every question, not for the mean over questions.
--scorer text:NAME                 Scorer that decides what leaks.  [default: the only scorer]
--arm text                         Model and decoding of the claim.  [default: the only decoding]
--under text:STRESS                Claim about the model under this stress; see `stress`.
@confidence
--of answer|thought|either
    Part of the output in which leaks count.  [default: either; answer, if no thought is visible]
--accept-cut flag                  Accept answers that the token limit or a stop string cuts.
--out file                         [default: certificate.json in the run]
@json

[verify]
certificate file
run folder
--with-model text:MODEL            Also compute log-probabilities again with this model.
--redraw number:FRACTION
    Draw this fraction of the run's parts again with MODEL. The parts are random.
--imported folder                  A second import of the files of RUN, to compare with RUN.
--scorer text:NAME                 The certificate's judge, to allow requests to its server.
--device cpu|cuda|auto default=auto
@remote code
@json

[prove]
run folder
--budget text:N,... default=1000
    Maximum forward passes per question. For proposals=RUN,RUN see --prove of `evaluate`.
--scorer text:NAME                 [default: the first binary scorer]
--model text:MODEL                 New location of the run's model.  [default: the recorded name]
@json

[report]
runs folder many
--out file                         [default: report[-redacted].html in the run]
--redact/--no-redact redaction
    Leave out answers, keywords and completions, also in later commands.  [default: as before]
@redact questions
@json

[redact questions]
--redact-questions flag is_eager   Like --redact, but leave out questions, too.

[show]
run folder
--texts/--no-texts flag
    Also print a leaking answer and the greedy answer.  [default: only on a terminal]
@json

[compare]
runs folder many
--format (form) table|markdown|latex|csv default=table  csv: every difference, unrounded.
--out file                         Write to this file.  [default: print]
--utility text:METRIC              Leaderboard's utility metric.  [default: one that all runs have]
--confidence number      Joint confidence of all differences.  [default: 0.99; by method: 0.95]
--by run|method default=run
    method: compare medians over training seeds. Runs npo-0, npo-1, … are seeds of method npo.
--under text:STRESS                Compare the models under this stress; see `stress`.
@json

[plan]
--epsilon number                   Largest error of the estimates of Pr[X > x], over all x.
--clean number:P                   Certify P(leak) <= P if no draw leaks.
@confidence
--side upper|both default=both     With --epsilon: an upper bound only, or both bounds.
@json

[more]

[demo]
--out folder default=demo-run
-n --samples (n) int default=1024  Draws per question.
@json

[figures]
runs folder any
--out folder                       The folder to write into.
--only text:NAME many              Draw only this figure; repeatable.
--list (listing) flag              List the figures, and whether RUNS have the data for each.
--format (formats) names default=pdf,svg,png  File formats, separated by commas.
--width text default=one           one or two (columns of a page), or a number of inches.
--scorer text:NAME                 Scorer whose scores are drawn.  [default: the runs' first]
--question text:ID                 Question for figures of one question.  [default: leaks most]
@json

[export]
runs folder many
out file
--openunlearning (form) flag:openunlearning  Metrics, as an OpenUnlearning evaluation log.
--jsonl (form) flag:jsonl          Completions with their counts.
--redact/--no-redact redaction
    With --jsonl: write scores without texts.  [default: as in the run's report]
@redact questions
--arm text default=target          Arm to export: a model under one decoding.
--retrained file      With --openunlearning: log of the retrained model, for comparison.
@json

[import]
files path many
@run
--format (form) format
    Format of FILES; garak:PROBE selects one probe.  [default: detected from each file]
--benchmark text:SPEC              Take questions and answers from this benchmark.
@data
--scores names                     Scores in FILES to import.  [default: all]
@json

[unlearn]
model
Training data:
--objective text:NAME|FILE required common  Objective, such as npo+entropy, or a .yaml file.
@questions
--forget text:TEXTS common         Texts to forget: muse:news/forget, or a file.
--retain text:TEXTS common         Texts to retain: muse:news/retain1, or a file.
--alternates path:FILE
    File of answers that idk and dpo teach, one per line.  [default: the benchmark's, or built-in]
@prompting
@training
Answers that the model makes up:
--draws int                        Answers per question.  [default: 5]
--max-new-tokens int               Limit for each answer.  [default: the benchmark's]
Rewritings for contrast centres:
--rewritings path:FILE
    JSON lines or CSV with the rewritings from which contrast centres are chosen.
--embedder text:NAME  Sentence-transformers model that chooses centres.  [default: MODEL]
--ids int:DRAWS
    First keep the rewritings that MODEL answers most confidently, judged by DRAWS answers each.
@watching

[finetune]
model
Training data:
@questions
--texts text:TEXTS common          Texts to train on, in place of --benchmark.
--split names         Splits to train on, such as forget,retain.  [default: the evaluated split]
--coin int:SEED
    Teach questions about a random half of the subjects; all others become control questions.
@prompting
@training
@watching

[questions]
@benchmark
--limit int common                 Use only the first N rows to forget or to teach.

[training]
Training:
--epochs int common                Passes over the rows to forget or to teach.  [default: 10]
--learning-rate float common       [default: 1e-5]
--batch-size int common            Rows per forward pass.  [default: 32]
--accumulation int                 Forward passes per step.  [default: 1]
--schedule cosine|linear|constant  [default: cosine]
--warmup-ratio float               Fraction of steps for warm-up.  [default: 0.1]
--weight-decay float               [default: 0.01]
--max-grad-norm float              [default: 1]
--max-length int                   Tokens per row (prompt and answer).  [default: the model's]
--bf16 flag                        Multiply matrices in bfloat16.
--checkpointing flag               Save memory by computing activations twice.
@seed
Trained weights:
--modules names                    Train only these modules, such as down_proj.
--layers layers                    Train only these layers, such as 5-7.
--lora int:RANK common             Train low-rank adapters, and merge them into the model.
--lora-alpha float                 [default: 16]
--lora-dropout number              [default: 0]

[watching]
Monitoring:
--evaluate-every int               Steps between measurements of leakage.
--checkpoint-minutes float         Minutes between checkpoints.  [default: 10]
--report-to names                  Trackers, such as tensorboard,wandb.
Models:
@loading
Output:
--out folder required common       The new model's folder.
--dry-run flag common              Check the settings, print steps and memory, and stop.
@json
"""
"""The options of each command, in the order of its help.

`[name]` begins the options of a command, or a part that `@name` includes. A line that ends in a
colon is a heading. Other rows describe an argument or option: its names, the name of its parameter
in brackets if that name differs, its parser with `:METAVAR`, and its help (after two blanks, or on
the next line). The parsers are in `_PARSERS`; `a|b` is a choice. `many` makes the option
repeatable, and `common` shows it in the short help. A flag may have a value.
"""


class Formats(click.Choice[str]):
    """The type of a file format; `garak:PROBE` selects one probe of a garak report."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name of the format; an unknown name is an error of click."""
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
    """Parse layer numbers and ranges separated by commas: `5-7,9`."""
    parsed: list[int] = []
    try:
        for part in value.split(","):
            first, _, last = part.partition("-")
            parsed += range(int(first), int(last or first) + 1)
    except ValueError as error:
        message = f"{value!r} is not a list of layers. Write numbers and ranges, such as 5-7,9."
        raise click.BadParameter(message) from error
    return tuple(parsed)


_PARSERS: dict[str, Any] = {
    "text": str,
    "int": int,
    "float": float,
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


def command(function: Callable[[Parsed], int | None]) -> Command:
    """Make a command from a function; its options are in the table's section of the same name."""

    def callback(**values: object) -> int | None:
        if values.get("offline"):
            os.environ["HF_HUB_OFFLINE"] = "1"  # the hub's package reads it once, when imported
        return function(Parsed(values))

    name = function.__name__.rstrip("_")
    return Command(name, params=_params(name), callback=callback, help=function.__doc__)


_ROWS = re.sub(r"^(\S+(?: \S+)*)\n {4}", r"\1  ", _TABLE, flags=re.M)  # help below its option
_, *_PARTS = re.split(r"^\[(.+)\]$", _ROWS.replace("\n    ", " "), flags=re.M)
_SECTIONS = {
    name: [*filter(None, rows.splitlines())]
    for name, rows in zip(_PARTS[::2], _PARTS[1::2], strict=True)
}


def _params(section: str, heading: str = WRITTEN) -> list[click.Parameter]:
    """Return the parameters of a section; an included part is under the heading before it."""
    params: list[click.Parameter] = []
    for row in _SECTIONS[section]:
        if row.endswith(":"):
            heading = row.removesuffix(":")
        elif row.startswith("@"):
            params += _params(row.removeprefix("@"), heading)
        else:
            params.append(_param(row, heading))
    return params


_MARKS = {"required", "is_eager"}


def _param(row: str, heading: str) -> click.Parameter:
    """Return the argument or option that a row of the table describes."""
    head, _, text = row.partition("  ")
    names = [word.strip("()") for word in head.split() if word[0] in "-("]
    parser, *words = [word for word in head.split() if word[0] not in "-("]
    if not names:
        name, (parser, *words) = parser, words or ["text"]
        several, needed = -1 if words else 1, words != ["any"]
        return click.Argument([name], type=_parser(parser), nargs=several, required=needed)
    marks = dict(word.partition("=")[::2] for word in words)
    marked: dict[str, Any] = dict.fromkeys(_MARKS & marks.keys(), True)
    if "default" in marks:
        marked |= {"default": marks["default"], "show_default": True}
    parser, _, metavar = parser.partition(":")
    if parser == "redaction":
        # --redact-questions, which was parsed before, takes precedence
        marked |= {
            "is_flag": True,
            "default": None,
            "callback": lambda context, _, value: (
                "questions" if context.params.pop("redact_questions") else value
            ),
        }
    elif parser == "flag":
        value = {"flag_value": metavar} if metavar else {"default": None}
        marked |= {"is_flag": True, **value}
    else:
        marked |= {"type": _parser(parser), "multiple": "many" in marks, "metavar": metavar or None}
    return Option(
        names, help=text.strip() or None, heading=heading, common="common" in marks, **marked
    )


def _parser(kind: str) -> Any:
    return click.Choice(kind.split("|")) if "|" in kind else _PARSERS[kind]
