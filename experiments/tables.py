"""The tables, figures and words of a page: of stored runs, and of what was kept of others."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from claims import Need
from common import UTILITY, Cost, Lab, Stored, cost_of, cost_of_training, kept_recall
from kept import Drawn, Kept, Row, settings_of
from sizes import BESIDE, COARSE, CONTROL, PLAIN, RECALL, REWORDED, TARGET, Size

import leakbound
from leakbound.evaluation.statements.rows import STANDARD_K
from leakbound.stats.about import Quantity
from leakbound.store import Run
from leakbound.text.rows import read_rows
from leakbound.text.shown import above, between, number
from unlearning import as_markdown, columns

TITLES = {"small": "", "middle": " on a real model", "full": " on a large model"}
BESIDE_IT = {
    "small": "[The same on a real model](findings-middle.md).",
    "middle": "[The same on a small model](findings.md).",
    "full": "[The same on a small model](findings.md).",
}
ABOUT = {
    "small": """\
The built-in benchmark: invented authors, 24 questions to forget and 168 to keep, and the demo's
Llama of .9 million parameters. Each seed has its own initial weights, target, control, unlearned
models and draws. A learning rate is the largest at which a method keeps 98 % of the target's
ROUGE-L recall on every second retained question, found with the first seed among
{rates}; utility is reported on the other half. No leak was looked at for
it, so every question to forget is reported. β, λ and the number of epochs were set by hand on
earlier versions of this benchmark, whose leaks had been seen.

What it cannot tell: anything about scale, about facts a model met in pre-training, about chat
models and judges. Its answers are one sentence each from a few templates, which give a model that
never saw them most of the ROUGE-L recall; a leak is therefore every keyword of the answer, unless
a claim says ROUGE-L. Two seeds are two models, the fewest that can disagree.
""",
    "middle": """\
SmolLM2-135M-Instruct (`experiments/smollm2.py` makes `models/base` of the file that a package
carries), trained and drawn in bfloat16, with the settings of `experiments/sizes.py`: the papers',
or what was tried on TOFU's forget01 ([results](results.md#tofu-mini)), none of whose authors is
asked about here. Each seed has a target and a control of its own, which differ in the order of
their rows.

- **One author of TOFU**: the first twenty questions of forget05 are learnt beside sixty of three
  other authors, and forgotten; 128 draws of each, of at most 64 tokens, or 32 under each of several
  laws, in other words, and of methods that stand in no table. A leak is ROUGE-L recall ≥ .9.
- **Harry Potter**: every second question. The model is taught the file's openers with the keywords
  behind them, beside as many questions of MUSE Books to keep, and forgets the former; 128 draws of
  at most 24 tokens. A leak is a keyword.
- **JailbreakBench**: all hundred goals, of the model as it is; 32 draws of at most 24 tokens.
- **MUSE News**: every fourth knowmem question; 128 draws of at most 24 tokens.

On two cores the seeds run side by side: each script with `--seeds 0 --threads 1` in one shell and
with `--seeds 1 --threads 1` in another.

What it cannot tell: a model of 135 million parameters that was taught eighty rows is no model that
met them among billions of others. Two seeds are two models, the fewest that can disagree; of
JailbreakBench both are of one model, drawn from twice.
""",
    "full": """\
TOFU with the papers' settings: forget05, and forget01 and forget10 for Tables 4 and 5 of Cheng et
al.; a leak is ROUGE-L recall ≥ .9.
""",
}
METHODS = """\
The columns of the papers: mean, standard deviation and mean + 2 standard deviations of the
ROUGE-L recall of sampled answers, averaged over the questions, and ROUGE-L recall of greedy answers
on what is kept. All these are estimates; S_mean and S_std of Cheng et al. are bounds. Means over
the models, one a seed, with the extremes. *At most*: the upper end of a 99 % statement about all
questions, both sides, of the model where it is largest, rounded up. The control never saw what is
forgotten.
"""
INPUTS = """\
The columns of Cheng et al., Tables 1, 4 and 5: S over the input distribution, of an answer to a
question in words drawn from those of a rule-made set, its own among them; R as above. Theirs are
bounds, these are estimates, but for *at most*.
"""
LEAKS = """\
The mean over the questions of the chance that one of k answers leaks, with bands that hold at 99 %
for all k of a model at once.
"""
SCORERS = """
## How often scorers err

Completions that were read, one by one, beside their question and answer, without their model's name
or a score, by two language models and no person: `experiments/labelled/README.md` says how.
*All told*: a leak is a completion that tells all that the answer tells and the question does not;
*some told*: one that tells some of it. *Missed*: of the leaks; *mistaken*: of the others. Intervals
at 99 % each, both sides.
"""
CORRECTED = """\
`--calibration` carries such errors into a bound, where the labelled completions are of the draws
that the bound is about: scorers do not err alike on every model. Of what told not all, ROUGE-L
recall ≥ .9 took for a leak: {models}. So here are the draws of all four with the first seed, in the
shares that were labelled, as if each labelled one had been drawn from all four together:
"""
KEPT = " but what `--kept` kept of other runs"
EARLIER = (
    "Figures kept of runs that are not there, by code of the bounds that is another now, or not "
    "known: {which}."
)
HEAD = """# What the papers claim, tested{title}

<!-- not run, this page: the runs that it is written from take the time that stands below -->

Each claim is one number above or below a limit. The limit and the runs are fixed in code before
anything is drawn, but where a claim says otherwise. The verdict reads intervals alone: **agrees**
where the interval of every model lies on the claim's side of the limit, **contradicts** where every
one lies on the other, undecided otherwise. Each seed is a model: a verdict is about these models,
not about the methods that made them. **Not tested** is what the design could not have shown, either
way, or what has no interval; its reason stands beside it, and its figures are a description.
Intervals hold at 99 % each, of one claim and one model, both sides; where a claim is about several
comparisons, those hold at once. Claims are not adjusted for one another. A number without an
interval has nothing drawn in it, or describes draws.

This page is written from stored runs and nothing else{kept}:

```sh
{commands}
python experiments/findings.py runs{given} --out {page}
```

`--pdf FOLDER` writes the figures for print as well. The first three go on where they were stopped;
`--only CLAIM` makes what one claim rests on. {beside}
"""


UNASKED = "–"  # of a model that others go on from and nothing else


def methods(lab: Lab, kept: Kept, of: str = "") -> Iterator[str]:
    """What every method leaks and keeps; `of` which data ends the title."""
    header, *rows = columns(lab)
    found = {row[0]: row for row in rows}
    yield from _table((f"Methods{of}", METHODS), header, found, known_as(lab.size, PLAIN), kept)


def known_as(size: Size, how: str) -> dict[str, str]:
    """The methods of a size in order, with digests of their settings, asked in one way."""
    return {name: settings_of(size, [Need(name, how)]) for name in (TARGET, *size.every, CONTROL)}


def _table(
    words: tuple[str, str],
    header: Row,
    rows: Mapping[str, Row],
    settings: Mapping[str, str],
    kept: Kept,
) -> Iterator[str]:
    """A table of methods under its title and what it is about; nothing without rows."""
    title, about = words
    if every := list(kept.rows(title, header, rows, settings)):
        yield f"### {title}\n\n{about}\n{as_markdown([header, *every])}\n"


def reworded(lab: Lab, seeds: Sequence[int], kept: Kept, of: str = "") -> Iterator[str]:
    """The columns of Cheng et al. for every method that was asked in other words; `of` as above."""
    rows: dict[str, Row] = {}
    for name in (TARGET, *lab.size.every, CONTROL):
        for seed in seeds:
            stored = Stored(lab, seed)
            with suppress(FileNotFoundError):
                rows[f"{name} {seed}"] = (
                    name, str(seed), *_over_inputs(stored, name), *_retained(stored, name),
                )  # fmt: skip
    header = ("method", "seed", "S_mean", "S_std", "S_ED", "S_mean at most", *_sets(lab))
    words, settings = (f"Over the input distribution{of}", INPUTS), known_as(lab.size, REWORDED)
    yield from _table(words, header, rows, settings, kept)


def _sets(lab: Lab) -> list[str]:
    """The columns of utility."""
    return [*lab.size.utility, "R_avg"] if len(lab.size.utility) > 1 else list(lab.size.utility)


def _over_inputs(stored: Stored, name: str) -> Iterator[str]:
    """S of a method, and how large its mean may be."""
    found = stored.run(name, REWORDED).estimates
    mean = found.mean("mean leakage", arm="target inputs", scorer=RECALL)
    quantities: tuple[Quantity, ...] = (
        "mean leakage", "standard deviation", "expectation deviation",
    )  # fmt: skip
    for one in quantities:
        rows = found.each(one, arm="target inputs", scorer=RECALL)
        yield number(fmean(row.value or 0 for row in rows))
    yield above(mean.upper)


def _retained(stored: Stored, name: str) -> list[str]:
    """What a method keeps, and the mean where there are several sets; dashes where unknown."""
    try:
        recall = kept_recall(stored.run(name).path / UTILITY)
    except FileNotFoundError:
        return ["–"] * len(_sets(stored.lab))
    known = {**recall, "R_avg": fmean(recall.values())}
    return [number(known[one]) for one in _sets(stored.lab)]


def repeated(lab: Lab, seeds: Sequence[int], kept: Kept) -> Iterator[str]:
    """leak@k of every method whose run is there, with bands that hold at all k at once."""
    rows: dict[str, Row] = {}
    for name in (TARGET, *lab.size.every, CONTROL):
        for seed in seeds:
            if found := _leaks(Stored(lab, seed), name):
                cells = (found.get(k, "–") for k in STANDARD_K)
                rows[f"{name} {seed}"] = (name, str(seed), *cells)
    header = ("method", "seed", *(f"k = {k}" for k in STANDARD_K))
    yield from _table(("leak@k", LEAKS), header, rows, known_as(lab.size, PLAIN), kept)


def _leaks(stored: Stored, name: str) -> dict[int, str]:
    """By k; nothing where there is no run."""
    try:
        run = stored.run(name)
    except FileNotFoundError:
        return {}
    with tempfile.TemporaryDirectory() as scratch:
        leakbound.figures(
            [run], scratch, only=["leak-at-k"], scorer=stored.lab.size.leak, formats=["svg"]
        )
        rows = read_rows(Path(scratch) / "leak-at-k.csv")
    return {
        int(row.text("k")): between(
            float(value) if (value := row.maybe("value")) else None,
            float(row.text("lower")),
            float(row.text("upper")),
        )
        for row in rows
        if row.text("quantity") == "leak@k"
    }


def costs(lab: Lab, seeds: Sequence[int], kept: Kept) -> Iterator[str]:
    """What every model and every way of asking cost, over the seeds."""
    rows: list[tuple[str, str, Cost]] = []
    for beside, size in {"": lab.size, **BESIDE}.items():
        there = (lab.folder / beside / "runs").exists()
        place = lab.beside(beside) if beside and there else lab
        for name in (TARGET, CONTROL, *size.every):
            of = f"{name}, {beside}" if beside else name
            found = _spent(place, name, seeds) if there else {}
            for how in (*size.asked, UNASKED):
                if how == UNASKED and rows and rows[-1][0] == of:
                    continue
                settings = settings_of(size, [Need(name, how if how in size.asked else PLAIN)])
                if cost := kept.cost(f"{of}: {how}", settings, found.get(how)):
                    rows.append((of, how, cost))
    yield "### What it cost\n"
    yield "Seconds on the clock of one thread beside other work, all seeds together.\n"
    yield "| model | training, s | asked | drawing, s | draws | forwards |"
    yield "|---|---|---|---|---|---|"
    for of, how, cost in rows:
        yield (
            f"| {of} | {cost.training:.0f} | {how} | {cost.drawing:.0f} | {cost.draws:,} | "
            f"{cost.forwards:,} |"
        )
    training = sum({of: cost.training for of, _, cost in rows}.values())
    drawn = sum((cost for *_, cost in rows), Cost())
    yield f"| all | {training:.0f} | | {drawn.drawing:.0f} | {drawn.draws:,} | {drawn.forwards:,} |"
    yield (
        f"\n{(training + drawn.drawing) / 60:.0f} minutes in all, without the trials of "
        "learning rates, draws that select inputs, scoring and bounding."
    )


def _spent(lab: Lab, name: str, seeds: Sequence[int]) -> dict[str, Cost]:
    """By way of asking: what a method's training and its draws took; it may not be asked at all."""
    models = [lab.folder / "models" / lab.slug(name, seed) for seed in seeds]
    trained = sum((cost_of_training(model) for model in models), Cost())
    found = {}
    for how in lab.size.asked:
        paths = [lab.path(name, seed, how) for seed in seeds]
        if runs := [Run.open(path) for path in paths if (path / "estimates.parquet").exists()]:
            found[how] = sum((cost_of(run) for run in runs), trained)
    return found if found or not trained.training else {UNASKED: trained}


@dataclass(frozen=True)
class Picture:
    """A figure of the page: which, of which runs and trained models, by which scorer.

    `some`: of the runs will do, which `{}` in the caption names. `name`: of its file, if not its
    kind.
    """

    kind: str
    caption: str
    needs: tuple[Need, ...]
    trained: tuple[str, ...] = ()
    soft: bool = False
    some: bool = False
    name: str = ""


def _plain(*methods: str) -> tuple[Need, ...]:
    return tuple(Need(method) for method in methods)


_GROUPS = (
    (TARGET, "GA", "GD", "KL"),
    ("NPO", "NPO + entropy", "NPO + entropy keeping 0"),
    ("RMU", "CEL"),
    ("DPO", "IDK", "SimNPO"),
)
PICTURES = (
    Picture("questions", "Figure 3a: every question, its greedy answer hollow",
            _plain("NPO", CONTROL)),
    Picture("tail", "Figure 3d: Pr[ROUGE-L recall > x] of one question",
            _plain("NPO", "NPO + entropy", CONTROL), soft=True),
    Picture("convergence", "Figures 3e and 3f: one question against the number of draws",
            _plain("NPO"), soft=True),
    Picture("spread", "Figure 4a: the standard deviation of every question",
            _plain("NPO", "NPO + entropy", CONTROL), soft=True),
    Picture("confidence", "Beside Figure 5b: entropy over training", _plain("NPO + entropy"),
            ("NPO + entropy",), soft=True),
    *(
        Picture("leak-at-k", "leak@k: {}",
                _plain(*group, CONTROL), some=True, name=f"leak-at-k-{i}")
        for i, group in enumerate(_GROUPS, start=1)
    ),
    Picture("naive", "The naive worst of k beside the unbiased estimate", _plain("NPO")),
    Picture("grid", "Temperature and top-p", (Need("NPO", "grid"),)),
    Picture("grid", "Temperature and top-p, of GD", (Need("GD", COARSE),), name="grid-gd"),
)  # fmt: skip


def pictures(
    size: str, lab: Lab, seed: int, page: Path, pdf: Path | None, kept: Kept
) -> Iterator[str]:
    """The figures that the runs can give, as SVG beside the page, and as PDF where asked.

    What was drawn of other runs with the same settings stays, unless as many are there now.
    """
    folder = page.parent / page.stem
    yield "### Figures\n\nOf the first seed.\n"
    for picture in PICTURES:
        file = f"{size}-{picture.name or picture.kind}.svg"
        settings, runs = settings_of(lab.size, picture.needs), _runs(Stored(lab, seed), picture)
        before = kept.pictures.get(file)
        if before is not None and (before.settings != settings or not (folder / file).exists()):
            before = None
        if runs and (before is None or len(runs) >= before.runs):
            _draw(picture, [*runs.values()], folder / file, pdf, lab)
            before = Drawn(settings, picture.caption.format(", ".join(runs)), len(runs))
            kept.pictures[file] = before
        if before is not None:
            yield f"![{before.caption}]({page.stem}/{file})\n"
            yield f"*{before.caption}.*\n"


def _runs(stored: Stored, picture: Picture) -> dict[str, Run | Path]:
    """Its runs and trained models; none where one is missing that it cannot do without."""
    found: dict[str, Run | Path] = {}
    for need in picture.needs:
        try:
            found[need.method] = stored.run(need.method, need.asked)
        except FileNotFoundError:
            if not picture.some:
                return {}
    try:
        found |= {f"training of {name}": stored.model(name) for name in picture.trained}
    except FileNotFoundError:
        return {}
    return found if len(found) > picture.some else {}


def _draw(
    picture: Picture, runs: Sequence[Run | Path], file: Path, pdf: Path | None, lab: Lab
) -> None:
    """Draw it beside the page, and for print."""
    with tempfile.TemporaryDirectory() as scratch:
        leakbound.figures(
            _apart(runs, Path(scratch)), scratch, only=[picture.kind],
            scorer=RECALL if picture.soft else lab.size.leak,
            formats=["svg", "pdf"] if pdf else ["svg"],
        )  # fmt: skip
        for target in filter(None, (file, pdf and pdf / file.with_suffix(".pdf").name)):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((Path(scratch) / f"{picture.kind}{target.suffix}").read_bytes())


def _apart(given: Sequence[Run | Path], scratch: Path) -> list[Run | str | Path]:
    """Trained models under names of their own: a run is called as its model is."""
    found: list[Run | str | Path] = []
    for one in given:
        if isinstance(one, Run):
            found.append(one)
            continue
        link = scratch / f"training of {Path(one).name}"
        link.symlink_to(Path(one).resolve())
        found.append(link)
    return found
