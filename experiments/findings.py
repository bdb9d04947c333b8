"""Write docs/findings.md, and its figures, from stored runs and nothing else.

    python experiments/findings.py runs --out docs/findings.md
    python experiments/findings.py runs --out docs/findings.md --pdf print

RUNS is the folder that scholten.py, leak_at_k.py and cheng.py were given. No model is loaded.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import cheng
import labelled
import leak_at_k
import scholten
from claims import Claim, Figure, Need, Verdict, measured
from common import Cost, Lab, Stored, cost_of, cost_of_training
from evidence import CONFIDENCE, Bound, fixed
from sizes import BESIDE, CLOSE, CONTROL, FEWER, NAMED, RECALL, TARGET

import leakbound
from leakbound import stats
from leakbound.evaluation.statements.quantities import STANDARD_K
from leakbound.stats.estimate import Side
from leakbound.store import Run, write_text
from leakbound.text.rows import read_rows
from unlearning import table

SCRIPTS: Mapping[str, Sequence[Claim]] = {
    "scholten.py": scholten.CLAIMS,
    "leak_at_k.py": leak_at_k.CLAIMS,
    "cheng.py": cheng.CLAIMS,
}
MARKS: Mapping[Verdict, str] = {
    "agrees": "agrees",
    "contradicts": "**contradicts**",
    "undecided": "undecided",
}
WORDS: Mapping[Verdict, str] = {
    "agrees": "What was measured agrees.",
    "contradicts": "**What was measured contradicts it.**",
    "undecided": "What was measured decides nothing.",
}


@dataclass(frozen=True)
class Picture:
    """A figure of the page: which, of which runs and trained models, by which scorer."""

    kind: str
    caption: str
    needs: tuple[Need, ...]
    trained: tuple[str, ...] = ()
    soft: bool = False
    some: bool = False  # of the runs will do
    name: str = ""  # of its file, if not its kind


def _plain(*methods: str) -> tuple[Need, ...]:
    return tuple(Need(method) for method in methods)


_SWEPT = ("NPO + entropy weight 0.2", "NPO + entropy weight 2")
_CENTRES = ("CEL push of 1 centres", "CEL push of 3 centres")
_GROUPS = (
    (TARGET, "GA", "GD"),
    ("NPO", "NPO + entropy", "NPO + entropy keeping 0", "NPO then leakmin"),
    ("RMU", "CEL"),
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
    Picture("entropy-weight", "Figure 4a against λ_f",
            (*(Need(name, FEWER) for name in _SWEPT), Need("NPO + entropy")),
            (*_SWEPT, "NPO + entropy"), soft=True),
    Picture("confidence", "Figure 5b: entropy over training", _plain("NPO + entropy"),
            ("NPO + entropy",), soft=True),
    Picture("adaptive", "Figure 5c: over the threshold c_T", (Need("NPO", "adaptive"),), soft=True),
    *(
        Picture("leak-at-k", f"leak@k: {', '.join(group)}, and the control",
                _plain(*group, CONTROL), some=True, name=f"leak-at-k-{i}")
        for i, group in enumerate(_GROUPS, start=1)
    ),
    Picture("naive", "The naive worst of k beside the unbiased estimate", _plain("NPO")),
    Picture("grid", "Temperature and top-p", (Need("NPO", "grid"),)),
    Picture("protocols", "Figure 3 of Cheng et al.: greedy, output and full",
            (Need("NPO", "reworded"),), soft=True),
    Picture("correlation", "Figure 2 of Cheng et al.: sureness and leakage",
            (Need("NPO", "reworded"),), soft=True),
    Picture("centres", "Figure 4 of Cheng et al.: over the number of centres",
            tuple(Need(name, FEWER) for name in _CENTRES), _CENTRES, soft=True),
)  # fmt: skip

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
a claim says ROUGE-L. Two seeds are the fewest that can disagree.
""",
    "middle": """\
SmolLM2-135M-Instruct, with the settings of `experiments/sizes.py`: on tofu-mini, where a leak is
ROUGE-L recall ≥ .9, and for the claims that say so on other data. Of Harry Potter every second
question: the model is taught the file's openers with the keywords behind them, beside as many
questions of MUSE Books to keep, and forgets the former; a leak is a keyword. Of JailbreakBench
every fifth goal, two of each category: the model is asked as it is. Of MUSE News every fourth
knowmem question. 128 draws each (goals: 32) of at most 24 tokens. The papers' 1,024 draws of up to
150 tokens at all hundred goals would be 15 million forwards.
""",
    "full": """\
TOFU forget05 with the papers' settings; a leak is ROUGE-L recall ≥ .9.
""",
}
METHODS = """\
The columns of the papers: mean, standard deviation and mean + 2 standard deviations of the
ROUGE-L recall of sampled answers, averaged over the questions, and ROUGE-L recall of greedy answers
on what is kept. *At most*: the upper end of a 99 % statement about all questions, both sides.
Means over the seeds, with the extremes; the control never saw what is forgotten.
"""
LEAKS = """\
The mean over the questions of the chance that one of k answers leaks, with bands that hold at 99 %
for all k of a model at once.
"""
SCORERS = """
## How often scorers err

Completions that were read, one by one, beside their question and answer, without their model's name
or a score, by a language model and no person: `experiments/labelled/README.md` says how.
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
HEAD = """# What the papers claim, tested

<!-- not run, this page: the runs that it is written from take the time that stands below -->

Each claim is one number above or below a limit. The limit and the runs are fixed in code before
anything is drawn, but where a claim says otherwise. The verdict reads intervals alone: **agrees**
where the interval of every seed lies on the claim's side of the limit, **contradicts** where every
one lies on the other, undecided otherwise. Intervals hold at 99 % each, of one claim and one seed,
both sides; where a claim is about several comparisons, those hold at once. Claims are not adjusted
for one another. A number without an interval has nothing drawn in it, or describes draws.

This page is written from stored runs and nothing else:

```sh
{commands}
python experiments/findings.py runs --out docs/findings.md
```

`--pdf FOLDER` writes the figures for print as well. The first three go on where they were stopped;
`--only CLAIM` makes what one claim rests on.
"""


def main() -> None:
    """Write the page of all sizes that are there."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("runs", type=Path, help="what the papers' scripts were given as --out")
    parser.add_argument("--out", type=Path, required=True, help="the page")
    parser.add_argument("--pdf", type=Path, help="a folder for the figures in print")
    parser.add_argument("--seeds", type=int, nargs="+", default=(0, 1))
    parser.add_argument("--data", type=Path, help="folder of the benchmark's files")
    options = parser.parse_args()
    if not any(_is_there(options.runs / size) for size in NAMED):
        parser.error(f"{options.runs} holds no runs; scholten.py and the others make them")
    write(options.runs, options.out, seeds=options.seeds, data=options.data, pdf=options.pdf)


def write(
    runs: Path,
    page: Path,
    *,
    seeds: Sequence[int] = (0, 1),
    data: Path | None = None,
    pdf: Path | None = None,
) -> None:
    """Write the page of every size whose runs are there, and its figures beside it."""
    parts = []
    for size in NAMED:
        if _is_there(runs / size):
            lab = Lab.open(NAMED[size], runs / size, data=data, replicated=True)
            parts.append(section(size, lab, seeds, page, pdf))
    commands = "\n".join(f"python experiments/{script} --out runs" for script in SCRIPTS)
    small = Lab.open(NAMED["small"], runs / "small", data=data, replicated=True)
    parts.append("\n".join(scorer_errors(small)) + "\n")
    write_text(page, HEAD.format(commands=commands) + "".join(parts))


def _is_there(folder: Path) -> bool:
    """True if a size has runs, on its benchmark or on other data."""
    return any((place / "runs").exists() for place in (folder, *(folder / b for b in BESIDE)))


def section(size: str, lab: Lab, seeds: Sequence[int], page: Path, pdf: Path | None) -> str:
    """All that is said of one size."""
    found = {
        claim.name: (script, claim, measured(claim, lab, seeds))
        for script, claims in SCRIPTS.items()
        for claim in claims
        if claim.of(size)
    }
    known = {name: each for name, each in found.items() if each[2]}
    rates = ", ".join(f"{rate:g}".lstrip("0") for rate in lab.size.rates)
    lines = [f"\n## {size.capitalize()}\n", ABOUT[size].format(rates=rates)]
    lines += _summary(known, seeds)
    if missing := [name for name in found if name not in known]:
        lines += [f"Not run: {', '.join(missing)}.", ""]
    if (lab.folder / "runs").exists():
        lines += ["### Methods\n", METHODS, table(lab), ""]
        lines += repeated(lab, seeds)
        lines += _pictures(size, lab, seeds[0], page, pdf)
    for script, claim, figures in known.values():
        lines += _entry(size, script, claim, claim.lab(lab), seeds, figures)
    beside = [lab.beside(name) for name in BESIDE if (lab.folder / name / "runs").exists()]
    return "\n".join([*lines, *_costs([lab, *beside], seeds)]) + "\n"


def repeated(lab: Lab, seeds: Sequence[int]) -> Iterator[str]:
    """leak@k of every method whose run is there, with bands that hold at all k at once."""
    yield "### leak@k\n"
    yield LEAKS
    yield f"| method | seed | {' | '.join(f'k = {k}' for k in STANDARD_K)} |"
    yield f"| --- | --- |{' --- |' * len(STANDARD_K)}"
    for name in (TARGET, *lab.size.every, CONTROL):
        for seed in seeds:
            found = _leaks(Stored(lab, seed), name)
            if found:
                cells = (found.get(k, "–") for k in STANDARD_K)
                yield f"| {name} | {seed} | {' | '.join(cells)} |"
    yield ""


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
        int(row.text("k")): Figure(
            *(float(row.text(end)) for end in ("value", "lower", "upper")), 0.99
        ).text
        for row in rows
    }


def scorer_errors(lab: Lab) -> Iterator[str]:
    """How often scorers err on what was read, and what that makes of the stored runs."""
    yield SCORERS
    for file in sorted(labelled.FOLDER.glob("*.csv")):
        rows = read_rows(file)
        yield f"### {file.stem.replace('_', ' ').capitalize()}\n"
        yield "```sh"
        yield f"python experiments/labelled.py errors experiments/labelled/{file.name}"
        yield "```\n"
        yield f"{len(rows)} completions.\n\n{labelled.table(file)}\n"
    yield from _corrected(lab)


def _corrected(lab: Lab) -> Iterator[str]:
    """What the errors on draws of several models make of a bound on all of these draws together."""
    file = labelled.FOLDER / "builtin.csv"
    (errors,) = labelled.errors(file, scorers=[CLOSE])
    positives = errors.missed[1] - errors.missed[0], errors.missed[1]
    try:
        close, keyword = (_mixed(Stored(lab, 0), scorer) for scorer in (CLOSE, lab.size.leak))
    except FileNotFoundError:
        return
    corrected = partial(
        stats.corrected_bound, close, positives=positives, negatives=errors.mistaken
    )
    wrong = Counter(
        row.text("model")
        for row, said in zip(read_rows(file), labelled.said(file, CLOSE), strict=True)
        if said and row.text("label") == "0"
    )
    others = Counter(row.text("model") for row in read_rows(file) if row.text("label") == "0")
    yield CORRECTED.format(
        models=", ".join(f"{name} {wrong[name]} of {others[name]}" for name in labelled.MODELS)
    )
    yield f"| by {CLOSE} | corrected | by {lab.size.leak} |"
    yield "|---|---|---|"
    found = (bound(confidence=CONFIDENCE, side="both") for bound in (close, corrected, keyword))
    yield f"| {' | '.join(Figure.of(one).text for one in found)} |\n"


def _mixed(stored: Stored, scorer: str) -> Bound:
    """The mean over the questions of models together, in the shares that were labelled."""
    means = {name: fixed(stored, name, scorer).mean for name in labelled.MODELS}
    total = sum(labelled.MODELS.values())

    def bound(*, confidence: float, side: Side) -> stats.Estimate:
        each = 1 - (1 - confidence) / len(means)
        found = [(labelled.MODELS[name] / total, mean(confidence=each, side=side))
                 for name, mean in means.items()]  # fmt: skip
        ends = {
            end: sum(share * float(getattr(one, end)) for share, one in found)
            for end in ("value", "lower", "upper")
        }
        return replace(found[0][1], **ends, confidence=confidence)

    return bound


def _summary(
    known: Mapping[str, tuple[str, Claim, tuple[Figure, ...]]], seeds: Sequence[int]
) -> Iterator[str]:
    verdicts: Counter[Verdict] = Counter(
        claim.rule.verdict(figures) for _, claim, figures in known.values()
    )
    told = (
        f"{verdicts['agrees']} agree, {verdicts['contradicts']} are contradicted, "
        f"{verdicts['undecided']} are undecided"
    )
    yield f"Of {len(known)} claims {told}; seeds {', '.join(map(str, seeds))}.\n"
    yield "| claim | of | says | verdict |"
    yield "|---|---|---|---|"
    for name, (_, claim, figures) in known.items():
        verdict = MARKS[claim.rule.verdict(figures)]
        yield f"| [{name}](#{name}) | {claim.paper}, {claim.where} | {claim.says} | {verdict} |"
    yield ""


def _entry(
    size: str,
    script: str,
    claim: Claim,
    lab: Lab,
    seeds: Sequence[int],
    figures: Sequence[Figure],
) -> Iterator[str]:
    """One claim: what it says, how to test it, what was measured, what follows, at what cost."""
    verdict = claim.rule.verdict(figures)
    yield f"### {claim.name}\n"
    yield f"{claim.paper}, {claim.where}: {claim.says} {WORDS[verdict]}\n"
    yield "```sh"
    data = "DATA" if claim.beside else "TOFU"
    more = "" if size == "small" else f" --size {size} --base models/base --data {data}"
    yield f"python experiments/{script} --out runs --only {claim.name}{more}"
    yield "```\n"
    yield f"| seed | {claim.figure} | beside it |"
    yield "|---|---|---|"
    for seed, figure in zip(seeds, figures, strict=True):
        yield f"| {seed} | {figure.text} | {figure.said} |"
    spent = sum((_cost(lab, need, seed) for need in claim.needs for seed in seeds), Cost())
    why = " ".join(filter(None, (_why(claim, seeds, figures), claim.bears)))
    yield f"\nThe claim asks for a figure {claim.rule.text}. {why}"
    yield (
        f"Its runs took {spent.training / 60:.1f} minutes of training and "
        f"{spent.drawing / 60:.1f} of drawing, {spent.forwards:,} forwards; other claims share "
        "them.\n"
    )


def _why(claim: Claim, seeds: Sequence[int], figures: Sequence[Figure]) -> str:
    """What the verdict rests on."""
    rule = claim.rule
    exact = all(figure.confidence == 1 for figure in figures)
    what = "figure" if exact else "interval"
    other = "below" if rule.side == "above" else "above"
    limit = f"{rule.limit:.3g}".replace("-", "−")
    match rule.verdict(figures):
        case "agrees":
            return f"The {what} of every seed is {rule.side} {limit}."
        case "contradicts":
            return f"The {what} of every seed is {other} {limit}, or at it."
        case "undecided":
            alone = {
                seed: rule.verdict([figure, figure])
                for seed, figure in zip(seeds, figures, strict=True)
            }
            said = {
                "agrees": f"is {rule.side} it",
                "contradicts": f"is {other} it",
                "undecided": "holds it",
            }
            told = ", ".join(f"that of seed {seed} {said[one]}" for seed, one in alone.items())
            return f"Of the {what}s, {told}: nothing is decided."


def _pictures(size: str, lab: Lab, seed: int, page: Path, pdf: Path | None) -> Iterator[str]:
    """The figures that the runs can give, as SVG beside the page, and as PDF where asked."""
    stored = Stored(lab, seed)
    folder = page.parent / page.stem
    yield "### Figures\n\nOf the first seed.\n"
    for picture in PICTURES:
        try:
            runs: list[Run | str | Path] = [*_runs(stored, picture)]
            runs += [stored.model(name) for name in picture.trained]
        except FileNotFoundError:
            continue
        if picture.some and len(runs) < 2:
            continue
        scorer = RECALL if picture.soft else lab.size.leak
        name = picture.name or picture.kind
        with tempfile.TemporaryDirectory() as scratch:
            leakbound.figures(
                _apart(runs, Path(scratch)), scratch, only=[picture.kind], scorer=scorer,
                formats=["svg", "pdf"] if pdf else ["svg"],
            )  # fmt: skip
            for target, form in ((folder, "svg"), (pdf, "pdf")):
                if target is not None:
                    target.mkdir(parents=True, exist_ok=True)
                    made = Path(scratch) / f"{picture.kind}.{form}"
                    (target / f"{size}-{name}.{form}").write_bytes(made.read_bytes())
        yield f"![{picture.caption}]({page.stem}/{size}-{name}.svg)\n"
        yield f"*{picture.caption}.*\n"


def _runs(stored: Stored, picture: Picture) -> Iterator[Run]:
    """Its runs; FileNotFoundError where one that it cannot do without is not there."""
    for need in picture.needs:
        try:
            yield stored.run(need.method, need.asked)
        except FileNotFoundError:
            if not picture.some:
                raise


def _apart(given: Sequence[Run | str | Path], scratch: Path) -> list[Run | str | Path]:
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


def _cost(lab: Lab, need: Need, seed: int) -> Cost:
    trained = lab.folder / "models" / lab.slug(need.method, seed)
    return cost_of(Stored(lab, seed).run(need.method, need.asked)) + cost_of_training(trained)


def _costs(labs: Sequence[Lab], seeds: Sequence[int]) -> Iterator[str]:
    """What every model and every way of asking cost, over the seeds."""
    yield "### What it cost\n"
    yield "Seconds on the clock of one thread beside other work, all seeds together.\n"
    yield "| model | training, s | asked | drawing, s | draws | forwards |"
    yield "|---|---|---|---|---|---|"
    total = Cost()
    every = [(lab, name) for lab in labs for name in (TARGET, CONTROL, *lab.size.every)]
    for lab, name in every:
        models = [lab.folder / "models" / lab.slug(name, seed) for seed in seeds]
        trained = sum((cost_of_training(m) for m in models), Cost())
        total += trained
        of = name if lab is labs[0] else f"{name}, {lab.folder.name}"
        for how in lab.size.asked:
            paths = [lab.path(name, seed, how) for seed in seeds]
            runs = [Run.open(path) for path in paths if (path / "estimates.parquet").exists()]
            if runs:
                drawn = sum((cost_of(run) for run in runs), Cost())
                total += drawn
                yield (
                    f"| {of} | {trained.training:.0f} | {how} | {drawn.drawing:.0f} | "
                    f"{drawn.draws:,} | {drawn.forwards:,} |"
                )
    yield (
        f"| all | {total.training:.0f} | | {total.drawing:.0f} | {total.draws:,} | "
        f"{total.forwards:,} |"
    )
    yield (
        f"\n{(total.training + total.drawing) / 60:.0f} minutes in all, without the trials of "
        "learning rates, scoring and bounding."
    )


if __name__ == "__main__":
    main()
