"""Test the claims of the papers in papers/*.yaml: make their runs and decide their verdicts.

    python experiments/claims.py scholten --out runs
    python experiments/claims.py cheng --size middle --base models/base --data DATA --out runs
    python experiments/claims.py leak-at-k --out runs --only k-sharp k-gd

A claim states that one number is above or below a limit. The rule is fixed before drawing and reads
only intervals. The models of all seeds agree with a claim if each of their intervals is on its side
of the limit, contradict it if each is on the other side, and leave it undecided otherwise. A claim
is not tested if its design cannot show or cannot contradict it (`untested`), if a model of the
claim leaks no more than its control (`below` in sizes.yaml), or if its figure has no interval.

Finished models and runs are kept: the same command resumes. `experiments/ledger.py` writes the
page. Columns of a claim:

    name, place, says     what `--only` takes; where the paper states the claim; the claim
    of                    leakbound, where the claim is not the paper's
    design, limit         what is measured; "> x" or "< x"
    quantity              a `kind` of quantities.py with its arguments
    runs                  the models to query, by way (sizes.py)
    untested, notes       letters of reasons.yaml: by size ("all": any) why the design cannot show
                          or contradict the claim; what limits how it can be read
    sizes, data, draws    the sizes that test it; other data than the size's; the draws it needs
    later                 added to every seed, for claims stated after the first seeds were seen
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import yaml
from lab import Lab, Stored, parsed, parser_of
from quantities import KINDS, Figure
from sizes import CONTROL, NAMED, OTHER_DATA, PLAIN, SIZES, TARGET, Size

Verdict = Literal["agrees", "contradicts", "undecided", "not tested"]
FOLDER = Path(__file__).parent / "papers"
REASONS: Mapping[str, str] = yaml.safe_load((FOLDER / "reasons.yaml").read_text("utf-8"))
BELOW, NO_INTERVAL = "A", "C"
PAPERS = ("scholten", "leak-at-k", "cheng")
SEEDS = (0, 1)


@dataclass(frozen=True)
class Claim:
    """A row of papers/*.yaml; the docstring of the module explains the fields."""

    paper: str
    name: str
    place: str
    says: str
    design: str
    limit: str
    quantity: Mapping[str, Any]
    runs: Mapping[str, Sequence[str]]
    of: str = ""
    untested: Mapping[str, str] = field(default_factory=dict)
    notes: str = ""
    sizes: tuple[str, ...] = ()
    data: str = ""
    draws: int = 0
    later: int = 0

    def __post_init__(self) -> None:
        letters = {*" ".join(self.untested.values()).split(), *self.notes.split()}
        if unknown := letters - REASONS.keys():
            raise ValueError(f"{self.name}: reasons.yaml has no {', '.join(sorted(unknown))}.")
        if unknown := self.untested.keys() - {"all", *NAMED}:
            raise ValueError(f"{self.name}: `untested` names no size by {sorted(unknown)}.")
        if self.limit[:2] not in ("> ", "< "):
            raise ValueError(f"{self.name}: `limit` is {self.limit!r}; write '> 0.1' or '< 0.1'.")

    def decided(self, figures: Sequence[Figure]) -> Verdict:
        """Return the decision of the figures of all seeds; at least two are needed."""
        if any(figure.confidence == 1 for figure in figures):
            return "not tested"
        if len(figures) < 2:
            return "undecided"
        limit, above = float(Fraction(self.limit[2:])), self.limit[0] == ">"
        if above:
            agrees = [figure.lower > limit for figure in figures]
            contradicts = [figure.upper <= limit for figure in figures]
        else:
            agrees = [figure.upper < limit for figure in figures]
            contradicts = [figure.lower >= limit for figure in figures]
        return "agrees" if all(agrees) else "contradicts" if all(contradicts) else "undecided"

    def reasons(self, size: str, figures: Sequence[Figure]) -> list[str]:
        """Return the letters of the reasons why it is not tested at this size by these figures."""
        letters = [*self.untested.get("all", "").split(), *self.untested.get(size, "").split()]
        used = {model for models in self.runs.values() for model in models}
        if used & {*self.size(size).below}:
            letters.insert(0, BELOW)
        unbounded = any(figure.confidence == 1 for figure in figures)
        return [*letters, *([NO_INTERVAL] if unbounded else [])]

    def verdict(self, size: str, figures: Sequence[Figure]) -> Verdict:
        """Return the verdict at a size."""
        return "not tested" if self.reasons(size, figures) else self.decided(figures)

    def seeds(self, given: Sequence[int]) -> tuple[int, ...]:
        """Return the seeds that test it, if they differ from the given ones."""
        return tuple(seed + self.later for seed in given)

    def size(self, name: str) -> Size:
        """Return the size that makes its runs, for the papers' name of a size."""
        return OTHER_DATA[self.data] if self.data else SIZES[NAMED[name]]

    def at(self, size: str) -> bool:
        """Return whether it can be tested at this size."""
        if self.data:
            return OTHER_DATA[self.data].queried_at == size
        return SIZES[NAMED[size]].n >= self.draws and size in (self.sizes or NAMED)


def claims_of(paper: str) -> list[Claim]:
    """Return the claims of one paper, in the order of its file."""
    table = yaml.safe_load((FOLDER / f"{paper}.yaml").read_text("utf-8"))
    return [Claim(paper=table["paper"], **row) for row in table["claims"]]


CLAIMS: Mapping[str, list[Claim]] = {paper: claims_of(paper) for paper in PAPERS}
EVERY = {claim.name: claim for claims in CLAIMS.values() for claim in claims}


def measured(claim: Claim, lab: Lab, seeds: Sequence[int] = SEEDS) -> tuple[Figure, ...]:
    """Return the figures of a claim, one per seed; none if a run is missing."""
    if claim.data and not (lab.folder / claim.data / "runs").exists():
        return ()
    arguments = {name: value for name, value in claim.quantity.items() if name != "kind"}
    figures, own = [], lab.with_data(claim.data) if claim.data else lab
    for seed in claim.seeds(seeds):
        stored = Stored(own, seed)
        try:
            for way, models in claim.runs.items():
                for model in models:
                    stored.run(model, way)
            figures.append(KINDS[claim.quantity["kind"]](stored, **arguments))
        except FileNotFoundError:
            return ()
    return tuple(figures)


def main() -> None:
    """Make the runs of a paper's claims, and print the verdicts."""
    parser = parser_of(__doc__, seeds="0,1")
    parser.add_argument("paper", choices=PAPERS)
    parser.add_argument("--size", choices=NAMED, default="small")
    parser.add_argument("--only", nargs="+", metavar="CLAIM", default=(), help="some claims")
    options = parsed(parser)
    known = {claim.name: claim for claim in CLAIMS[options.paper] if claim.at(options.size)}
    if unknown := set(options.only) - known.keys():
        parser.error(
            f"--only: --size {options.size} of {options.paper} tests no "
            f"{', '.join(sorted(unknown))}; it tests {', '.join(sorted(known))}."
        )
    chosen = [claim for name, claim in known.items() if not options.only or name in options.only]
    folder = options.out / options.size
    lab = Lab.open(NAMED[options.size], folder, options.data, options.base, replicated=True)
    needed = [
        (claim.data, model, seed, way)
        for claim in chosen
        for way, models in claim.runs.items()
        for model in models
        for seed in claim.seeds(options.seeds)
    ]
    if not options.only:
        needed += [("", name, seed, PLAIN) for name in (TARGET, CONTROL) for seed in options.seeds]
    for data, model, seed, way in dict.fromkeys(needed):
        (lab.with_data(data) if data else lab).run(model, seed, way)
    for claim in chosen:
        figures = measured(claim, lab, options.seeds)
        texts = "; ".join(figure.text for figure in figures)
        verdict = claim.verdict(options.size, figures)
        print(f"{claim.name}: {verdict}. {claim.design} ({claim.limit}): {texts}")


if __name__ == "__main__":
    main()
