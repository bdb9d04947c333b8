"""Write the page of one size, and its figures, from stored runs and nothing else.

    python experiments/findings.py runs --out docs/findings.md
    python experiments/findings.py runs --size middle --data DATA --out docs/findings-middle.md
    python experiments/findings.py runs --out docs/findings.md --pdf print

RUNS is the folder that scholten.py, leak_at_k.py and cheng.py were given. No model is loaded.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean

import cheng
import labelled
import leak_at_k
import scholten
from claims import Claim, Figure, Need, Verdict, measured
from common import Cost, Lab, Stored, cost_of, cost_of_training
from evidence import CONFIDENCE, Bound, fixed
from pictures import pictures
from sizes import BESIDE, CLOSE, CONTROL, NAMED, RECALL, TARGET
from words import ABOUT, BESIDE_IT, CORRECTED, HEAD, INPUTS, LEAKS, METHODS, SCORERS, TITLES

import leakbound
from leakbound import stats
from leakbound.evaluation.statements.quantities import STANDARD_K
from leakbound.stats.about import Quantity
from leakbound.stats.estimate import Side
from leakbound.store import Run, write_text
from leakbound.text.figures import above, number
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


def main() -> None:
    """Write the page of one size."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("runs", type=Path, help="what the papers' scripts were given as --out")
    parser.add_argument("--size", choices=NAMED, default="small")
    parser.add_argument("--out", type=Path, required=True, help="the page")
    parser.add_argument("--pdf", type=Path, help="a folder for the figures in print")
    parser.add_argument("--seeds", type=int, nargs="+", default=(0, 1))
    parser.add_argument("--data", type=Path, help="folder of the benchmark's files")
    options = parser.parse_args()
    if not _is_there(options.runs / options.size):
        parser.error(
            f"{options.runs} holds no {options.size} runs; scholten.py and the others make them"
        )
    write(
        options.runs, options.out, size=options.size, seeds=options.seeds, data=options.data,
        pdf=options.pdf,
    )  # fmt: skip


def write(
    runs: Path,
    page: Path,
    *,
    size: str = "small",
    seeds: Sequence[int] = (0, 1),
    data: Path | None = None,
    pdf: Path | None = None,
) -> None:
    """Write the page of one size, whose runs are there, and its figures beside it."""
    lab = Lab.open(NAMED[size], runs / size, data=data, replicated=True)
    text = _head(size) + section(size, lab, seeds, page, pdf)
    if size == "small":
        text += "\n".join(scorer_errors(lab)) + "\n"
    write_text(page, text)


def _head(size: str) -> str:
    """What is true of every claim, and how the page was made."""
    sized = "" if size == "small" else f" --size {size}"
    made = "" if size == "small" else f"{sized} --base models/base --data DATA"
    return HEAD.format(
        title=TITLES[size],
        commands="\n".join(f"python experiments/{script}{made} --out runs" for script in SCRIPTS),
        given=f"{sized} --data DATA" if sized else "",
        page="docs/findings.md" if size == "small" else f"docs/findings-{size}.md",
        beside=BESIDE_IT[size],
    )


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
        lines += reworded(lab, seeds)
        lines += repeated(lab, seeds)
        lines += pictures(size, lab, seeds[0], page, pdf)
    for script, claim, figures in known.values():
        lines += _entry(size, script, claim, claim.lab(lab), seeds, figures)
    beside = [lab.beside(name) for name in BESIDE if (lab.folder / name / "runs").exists()]
    return "\n".join([*lines, *_costs([lab, *beside], seeds)]) + "\n"


def reworded(lab: Lab, seeds: Sequence[int]) -> Iterator[str]:
    """S of Cheng et al. for every method that was asked in other words; nothing if none was."""
    lines = []
    for name in (TARGET, *lab.size.every, CONTROL):
        for seed in seeds:
            with suppress(FileNotFoundError):
                found = Stored(lab, seed).run(name, "reworded").estimates
                each = partial(found.each, arm="target inputs", scorer=RECALL)
                mean = found.mean("mean leakage", arm="target inputs", scorer=RECALL)
                columns: tuple[Quantity, ...] = (
                    "mean leakage", "standard deviation", "expectation deviation",
                )  # fmt: skip
                cells = [number(fmean(r.value or 0 for r in each(one))) for one in columns]
                lines.append(f"| {name} | {seed} | {' | '.join(cells)} | {above(mean.upper)} |")
    if lines:
        yield "### Over the input distribution\n"
        yield INPUTS
        yield "| method | seed | S_mean | S_std | S_ED | S_mean at most |"
        yield "| --- | --- | --- | --- | --- | --- |"
        yield from (*lines, "")


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
    more = "" if size == "small" else f" --size {size} --base models/base --data DATA"
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
