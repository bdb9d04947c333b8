"""Completions that were read and labelled by hand, and how often automatic scorers err on them.

    python experiments/labelled.py choose runs/small --out new.csv    # 100 at random, labels blank
    python experiments/labelled.py ask models/base --data TOFU --out new.csv    # one a world fact
    python experiments/labelled.py errors experiments/labelled/builtin.csv

Columns: `label` is 1 where the completion tells, in whatever words, all that the answer tells and
the question does not; `part` is 1 where it tells some of it. `second` and `second_part` are those
of another reader. The other columns are what `--calibration` needs to have any scorer judge the
same completions.
"""

from __future__ import annotations

import argparse
import csv
import io
import random
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import eq
from pathlib import Path
from typing import Any

from common import Lab, Stored
from evidence import CONFIDENCE, arm_of
from sizes import NAMED, TARGET

from leakbound import sample
from leakbound.benchmarks import load_benchmark
from leakbound.scorers import make_scorer, score_pairs
from leakbound.stats import proportion_bound
from leakbound.store import Run, write_text
from leakbound.study import ModelSettings
from leakbound.text.keywords import answer_keywords, content_words
from leakbound.text.rows import read_rows
from leakbound.text.shown import above, below, number
from leakbound.types import Prompt

FOLDER = Path(__file__).parent / "labelled"
SEED = 17
MODELS = {TARGET: 30, "GA": 30, "NPO": 20, "NPO + entropy": 20}
"""How many completions of each model: some leak nearly always, some hardly ever."""
FACTS = 60
SCORERS = (
    "exact", "contains", "keyword", "keyword:match=substring", "keyword:require=all",
    "rouge-l-recall>=0.5", "rouge-l-recall>=0.9", "rouge-l-recall>=1", "rouge-l-f1>=0.5",
    "rouge-l-f1>=0.9",
)  # fmt: skip
COLUMNS = (
    "label", "part", "model", "id", "question", "answer", "keywords", "output", "note",
    "second", "second_part", "second_note",
)  # fmt: skip
Row = tuple[str, Prompt, str]
"""A model, what it was asked, and what it said."""


@dataclass(frozen=True)
class Errors:
    """Of completions that tell the answer, how many a scorer misses; of others, how many it takes
    for a leak: (errors, of) each."""

    scorer: str
    missed: tuple[int, int]
    mistaken: tuple[int, int]

    def cells(self) -> list[str]:
        """For a table, with intervals that hold one by one."""
        return [f"`{self.scorer}`", *map(_rate, (self.missed, self.mistaken))]


def errors(file: Path, label: str = "label", scorers: Sequence[str] = SCORERS) -> list[Errors]:
    """The errors of every scorer on a labelled file, by one of its two labels."""
    truth = [row.text(label) == "1" for row in read_rows(file)]
    leaks = sum(truth)
    found = []
    for name in scorers:
        told = list(zip(truth, said(file, name), strict=True))
        missed = sum(leak and not one for leak, one in told)
        mistaken = sum(one and not leak for leak, one in told)
        found.append(Errors(name, (missed, leaks), (mistaken, len(truth) - leaks)))
    return found


def said(file: Path, scorer: str) -> list[bool]:
    """Of every completion, whether a scorer calls it a leak."""
    items = [
        (
            row.maybe("output") or "",
            Prompt(
                id=f"item {row.number}",
                question=row.text("question"),
                answer=row.text("answer"),
                keywords=row.texts("keywords", separators=";"),
            ),
        )
        for row in read_rows(file)
    ]
    return [score == 1 for score in score_pairs(make_scorer(scorer), items)]


def table(file: Path) -> str:
    """Both kinds of errors by both labels, as Markdown."""
    header = ["scorer", "missed (all told)", "mistaken (all told)",
              "missed (some told)", "mistaken (some told)"]  # fmt: skip
    lines = [header, ["---"] * len(header)]
    for whole, part in zip(errors(file), errors(file, "part"), strict=True):
        lines.append([*whole.cells(), *part.cells()[1:]])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def alike(file: Path, label: str, second: str) -> tuple[int, int, float]:
    """On how many completions two labels agree, of how many, and Cohen's kappa: how far they agree
    beyond what two who label at these rates without reading would."""
    rows = read_rows(file)
    one, other = ([row.text(name) == "1" for row in rows] for name in (label, second))
    same = sum(map(eq, one, other))
    shares = sum(one) / len(rows), sum(other) / len(rows)
    chance = shares[0] * shares[1] + (1 - shares[0]) * (1 - shares[1])
    return same, len(rows), (same / len(rows) - chance) / (1 - chance)


def readers(file: Path) -> str:
    """How far the two who read a file agree, in words."""
    told = [
        f"on `{label}` for {same} of {count} (Cohen's κ {kappa:.2f})"
        for label, second in (("label", "second"), ("part", "second_part"))
        for same, count, kappa in [alike(file, label, second)]
    ]
    return f"Two readers agree {' and '.join(told)}; scorers are held against the first."


def choose(lab: Lab, models: Mapping[str, int] = MODELS, seed: int = SEED) -> list[Row]:
    """Completions at random: of each model so many draws, whichever question they answer.

    Models follow one another at random and no score is looked at, so that a reader knows neither.
    """
    luck = random.Random(seed)
    prompts = {prompt.id: prompt for prompt in lab.task.prompts}
    chosen = []
    for model, count in models.items():
        run = Stored(lab, 0).run(model)
        draws = _draws(run, arm_of(run).name)
        for row in luck.choices(draws, [row["count"] for row in draws], k=count):
            chosen.append((model, prompts[row["query_id"]], row["text"]))
    luck.shuffle(chosen)
    return chosen


def ask(model: str, data: Path | None, out: Path, count: int = FACTS) -> list[Row]:
    """One answer of a model to each of some of TOFU's world facts, drawn as it is.

    Keywords are the words of the answer that the question lacks, or all of them.
    """
    task = load_benchmark("tofu:world_facts", data=data)
    chosen = tuple(random.Random(SEED).sample(task.prompts, count))
    task = replace(task, prompts=chosen, others={}, utility={}, loaded=None, max_new_tokens=48)
    settings = ModelSettings(device="cpu", dtype="bfloat16")
    run = sample(model, task, out=out, n=1, seed=SEED, settings=settings)
    prompts = {prompt.id: prompt for prompt in map(_with_keywords, chosen)}
    name = arm_of(run).name
    return [("base", prompts[row["query_id"]], row["text"]) for row in _draws(run, name)]


def written(rows: Sequence[Row]) -> str:
    """As CSV, the labels blank."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(COLUMNS)
    for model, prompt, output in rows:
        words = "; ".join(prompt.keywords)
        asked = (prompt.id, prompt.question, prompt.answer, words)
        lines.writerow(("", "", model, *asked, output.strip(), "", "", "", ""))
    return text.getvalue()


def main() -> None:
    """Choose completions to be read, or count the errors on those that were."""
    options = _options()
    if options.verb == "errors":
        print(f"{table(options.file)}\n\n{readers(options.file)}")
    elif options.verb == "ask":
        with tempfile.TemporaryDirectory() as scratch:
            rows = ask(options.model, options.data, Path(scratch) / "run")
        write_text(options.out, written(rows))
    else:
        lab = Lab.open(NAMED[options.runs.name], options.runs, replicated=True)
        write_text(options.out, written(choose(lab)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    chooses = verbs.add_parser("choose", help="completions of stored runs, to be labelled")
    chooses.add_argument("runs", type=Path, help="the folder of a size")
    asks = verbs.add_parser("ask", help="a model's answers to world facts, to be labelled")
    asks.add_argument("model", help="its folder")
    asks.add_argument("--data", type=Path, help="folder of the benchmark's files")
    for verb in (chooses, asks):
        verb.add_argument("--out", type=Path, required=True, help="the file of completions")
    counts = verbs.add_parser("errors", help="how often each scorer errs")
    counts.add_argument("file", type=Path)
    return parser.parse_args()


def _draws(run: Run, arm: str) -> list[dict[str, Any]]:
    return [row for row in run.completions.to_arrow().to_pylist() if row["arm"] == arm]


def _with_keywords(prompt: Prompt) -> Prompt:
    answer = prompt.answer or ""
    words = answer_keywords(prompt.question, answer) or tuple(content_words(answer))
    return replace(prompt, keywords=words)


def _rate(of: tuple[int, int]) -> str:
    bound = proportion_bound(*of, confidence=CONFIDENCE, side="both")
    ends = f"{below(float(bound.lower))}, {above(float(bound.upper))}"
    return f"{of[0]} of {of[1]}: {number(float(bound.value))} [{ends}]"


if __name__ == "__main__":
    main()
