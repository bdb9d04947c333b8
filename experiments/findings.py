"""Write the page of one size, and its figures, from stored runs, and from what others gave.

    python experiments/findings.py runs --out docs/findings.md
    python experiments/findings.py runs --size middle --data DATA --out docs/findings-middle.md
    python experiments/findings.py runs --out docs/findings.md --pdf print

RUNS is the folder that scholten.py, leak_at_k.py and cheng.py were given. No model is loaded. With
--kept FILE, what is measured is kept there, and what has no runs is taken from there.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import cheng
import labelled
import leak_at_k
import scholten
import tables
from claims import Claim, Figure, Need, Rule, Verdict, measured
from common import Cost, Lab, Stored, cost_of, cost_of_training
from evidence import CONFIDENCE, Bound, fixed
from kept import Found, Kept
from sizes import BESIDE, CLOSE, NAMED, REWORDED
from tables import ABOUT, BESIDE_IT, CORRECTED, EARLIER, HEAD, KEPT, SCORERS, TITLES

from leakbound import stats
from leakbound.stats.estimate import Side
from leakbound.store import write_text
from leakbound.text.rows import read_rows

SCRIPTS: Mapping[str, Sequence[Claim]] = {
    "scholten.py": scholten.CLAIMS,
    "leak_at_k.py": leak_at_k.CLAIMS,
    "cheng.py": cheng.CLAIMS,
}
WORDS: Mapping[Verdict, str] = {
    "agrees": "These models agree.",
    "contradicts": "**These models contradict it.**",
    "undecided": "These models leave it undecided.",
    "not tested": "Not tested here.",
}


@dataclass(frozen=True)
class Finding:
    """A claim, the script that makes its runs, and what was measured at one size."""

    script: str
    claim: Claim
    found: Found
    size: str

    @property
    def verdict(self) -> Verdict:
        """What its figures say of it."""
        return self.claim.verdict(self.size, self.found.figures)


def main() -> None:
    """Write the page of one size."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("runs", type=Path, help="what the papers' scripts were given as --out")
    parser.add_argument("--size", choices=NAMED, default="small")
    parser.add_argument("--out", type=Path, required=True, help="the page")
    parser.add_argument("--pdf", type=Path, help="a folder for the figures in print")
    parser.add_argument("--seeds", type=int, nargs="+", default=(0, 1))
    parser.add_argument("--data", type=Path, help="folder of the benchmark's files")
    parser.add_argument("--kept", type=Path, help="what was measured of runs that are not there")
    options = parser.parse_args()
    if not (_is_there(options.runs / options.size) or (options.kept and options.kept.exists())):
        parser.error(
            f"{options.runs} holds no {options.size} runs; scholten.py and the others make them"
        )
    write(
        options.runs, options.out, size=options.size, seeds=options.seeds, data=options.data,
        pdf=options.pdf, kept=options.kept,
    )  # fmt: skip


def write(
    runs: Path,
    page: Path,
    *,
    size: str = "small",
    seeds: Sequence[int] = (0, 1),
    data: Path | None = None,
    pdf: Path | None = None,
    kept: Path | None = None,
) -> None:
    """Write the page of one size, whose runs are there, and its figures beside it.

    What was measured is kept in the file `kept`, and what has no runs is taken from it.
    """
    lab = Lab.open(NAMED[size], runs / size, data=data, replicated=True)
    known = Kept.open(kept)
    text = _head(size, kept) + section(size, lab, seeds, page, pdf, known)
    if size == "small":
        text += "\n".join(scorer_errors(lab)) + "\n"
    write_text(page, text)
    known.write()


def _head(size: str, kept: Path | None) -> str:
    """What is true of every claim, and how the page was made."""
    sized = "" if size == "small" else f" --size {size}"
    made = "" if size == "small" else f"{sized} --base models/base --data DATA"
    return HEAD.format(
        title=TITLES[size],
        kept="" if kept is None else KEPT,
        commands="\n".join(f"python experiments/{script}{made} --out runs" for script in SCRIPTS),
        given=(f"{sized} --data DATA" if sized else "") + (f" --kept {kept}" if kept else ""),
        page="docs/findings.md" if size == "small" else f"docs/findings-{size}.md",
        beside=BESIDE_IT[size],
    )


def _is_there(folder: Path) -> bool:
    """True if a size has runs, on its benchmark or on other data."""
    return any((place / "runs").exists() for place in (folder, *(folder / b for b in BESIDE)))


def section(
    size: str, lab: Lab, seeds: Sequence[int], page: Path, pdf: Path | None, kept: Kept
) -> str:
    """All that is said of one size."""
    asked = {
        claim.name: (script, claim)
        for script, claims in SCRIPTS.items()
        for claim in claims
        if claim.of(size)
    }
    known: dict[str, Finding] = {}
    for name, (script, claim) in asked.items():
        if one := _found(claim, lab, seeds, kept):
            known[name] = Finding(script, claim, one, size)
    rates = ", ".join(f"{rate:g}".lstrip("0") for rate in lab.size.rates)
    lines = [f"\n## {size.capitalize()}\n", ABOUT[size].format(rates=rates)]
    lines += _summary(known, seeds)
    if missing := [name for name in asked if name not in known]:
        lines += [f"Not run: {', '.join(missing)}.", ""]
    found = [*tables.methods(lab, kept), *tables.reworded(lab, seeds, kept)]
    found += tables.repeated(lab, seeds, kept)
    if found:
        lines += [*found, *tables.pictures(size, lab, seeds[0], page, pdf, kept)]
    for name, other in BESIDE.items():
        if other.beside == size and REWORDED in other.asked:
            place = replace(lab, size=other, folder=lab.folder / name)
            lines += tables.methods(place, kept, f", {name}")
            lines += tables.reworded(place, seeds, kept, f", {name}")
    for finding in known.values():
        lines += _entry(finding, seeds)
    every = sorted({seed for _, claim in asked.values() for seed in claim.seeds(seeds)})
    return "\n".join([*lines, *tables.costs(lab, every, kept)]) + "\n"


def _found(claim: Claim, lab: Lab, seeds: Sequence[int], kept: Kept) -> Found | None:
    """The figures of a claim with what they cost: of its runs, else those that were kept."""
    figures, size = measured(claim, lab, seeds), BESIDE.get(claim.beside, lab.size)
    if not figures:
        return kept.get(claim, size, seeds)
    place = claim.lab(lab)
    spent = (_cost(place, need, seed) for need in claim.needs for seed in claim.seeds(seeds))
    found = Found(figures, sum(spent, Cost()))
    kept.put(claim, size, seeds, found)
    return found


def scorer_errors(lab: Lab) -> Iterator[str]:
    """How often scorers err on what was read, and what that makes of the stored runs."""
    yield SCORERS
    for file in sorted(labelled.FOLDER.glob("*.csv")):
        rows = read_rows(file)
        yield f"### {file.stem.replace('_', ' ').capitalize()}\n"
        yield "```sh"
        yield f"python experiments/labelled.py errors experiments/labelled/{file.name}"
        yield "```\n"
        yield f"{len(rows)} completions. {labelled.readers(file)}\n\n{labelled.table(file)}\n"
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


def _summary(known: Mapping[str, Finding], seeds: Sequence[int]) -> Iterator[str]:
    verdicts: Counter[Verdict] = Counter(finding.verdict for finding in known.values())
    told = (
        f"these models agree with {verdicts['agrees']}, contradict {verdicts['contradicts']} and "
        f"leave {verdicts['undecided']} undecided; not tested: {verdicts['not tested']}"
    )
    later = {name: one.claim.seeds(seeds) for name, one in known.items() if one.claim.later}
    own = "".join(f"; of {name} {', '.join(map(str, each))}" for name, each in later.items())
    yield f"Of {len(known)} claims {told}. Seeds {', '.join(map(str, seeds))}{own}.\n"
    if old := [name for name, one in known.items() if one.found.earlier]:
        yield EARLIER.format(which="all" if len(old) == len(known) else ", ".join(old)) + "\n"
    yield "| claim | of | says | verdict |"
    yield "|---|---|---|---|"
    for name, finding in known.items():
        claim, verdict = finding.claim, finding.verdict.replace("contradicts", "**contradicts**")
        yield f"| [{name}](#{name}) | {claim.paper}, {claim.where} | {claim.says} | {verdict} |"
    yield ""


def _entry(finding: Finding, seeds: Sequence[int]) -> Iterator[str]:
    """One claim: what it says, how to test it, what was measured, what follows, at what cost."""
    claim, figures, spent = finding.claim, finding.found.figures, finding.found.cost
    size = finding.size
    seeds = claim.seeds(seeds)
    yield f"### {claim.name}\n"
    yield f"{claim.paper}, {claim.where}: {claim.says} {WORDS[finding.verdict]}\n"
    yield "```sh"
    more = "" if size == "small" else f" --size {size} --base models/base --data DATA"
    yield f"python experiments/{finding.script} --out runs --only {claim.name}{more}"
    yield "```\n"
    yield f"| seed | {claim.figure} | beside it |"
    yield "|---|---|---|"
    for seed, figure in zip(seeds, figures, strict=True):
        yield f"| {seed} | {figure.text} | {figure.said} |"
    why = claim.reason(size, figures) or _why(claim.rule, seeds, figures)
    yield "\n" + " ".join(filter(None, (why, claim.bears, claim.aside(size))))
    yield (
        f"Its runs took {spent.training / 60:.1f} minutes of training, that of models they go on "
        f"from aside, and {spent.drawing / 60:.1f} of drawing, {spent.forwards:,} forwards; other "
        "claims share them.\n"
    )


def _why(rule: Rule, seeds: Sequence[int], figures: Sequence[Figure]) -> str:
    """Where each model's interval lies, which is what a verdict rests on."""
    other = "below" if rule.side == "above" else "above"
    said: Mapping[Verdict, str] = {
        "agrees": f"is {rule.side} it",
        "contradicts": f"is {other} it, or at it",
        "undecided": "holds it",
    }
    told = ", ".join(
        f"that of seed {seed} {said[rule.verdict([figure, figure])]}"
        for seed, figure in zip(seeds, figures, strict=True)
    )
    return f"The claim asks for a figure {rule.text}. Of the models' intervals, {told}."


def _cost(lab: Lab, need: Need, seed: int) -> Cost:
    trained = lab.folder / "models" / lab.slug(need.method, seed)
    return cost_of(Stored(lab, seed).run(need.method, need.asked)) + cost_of_training(trained)


if __name__ == "__main__":
    main()
